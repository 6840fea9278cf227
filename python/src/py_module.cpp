// flashmoe_science._C: attention on torch tensors and NumPy arrays without any Python on the way, and without linking
// torch. What needs torch's dispatcher (gradients, modes, transforms, subclasses) is handed to the Python function that
// flashmoe_science._torch registers.
#include <memory>
#include <string>

#include "attention_call.hpp"
#include "py_arrays.hpp"
#include "py_call_args.hpp"

namespace flashmoe::python {
namespace {

enum AttentionSlot {
  kQ,
  kK,
  kV,
  kCausal,
  kScale,
  kWindow,
  kSoftcap,
  kBias,
  kSinks,
  kCuQ,
  kCuKv,
  kKvLengths,
  kBlockTable,
  kMaxQ,
  kMaxKv,
  kLayout,
  kReturnLse,
  kNumSplits,
  kOut,
  kDtype,  // plan_attention only
  kAttentionSlots
};
using AttentionSlots = std::array<PyObject*, kAttentionSlots>;

Signature<kAttentionSlots> attention_signature("attention", 3, 3, "q", "k", "v", "causal", "scale", "window", "softcap",
                                               "bias", "sinks", "cu_q", "cu_kv", "kv_lengths", "block_table", "max_q",
                                               "max_kv", "layout", "return_lse", "num_splits", "out", "dtype");

enum MergeSlot { kOA, kLseA, kOB, kLseB, kMergeLayout, kMergeSlots };
Signature<kMergeSlots> merge_signature("merge_states", 4, 4, "o_a", "lse_a", "o_b", "lse_b", "layout");

enum ForwardSlot { kForwardQ, kForwardK, kForwardV, kForwardLse, kForwardCausal, kForwardScale, kForwardSlots };
Signature<kForwardSlots> forward_signature("flash_attention_forward", 6, 3, "Q", "K", "V", "lse", "causal", "scale");

bool read_attention_options(const AttentionSlots& slots, AttentionOptions& options) {
  bool causal = false;
  options.has_scale = slots[kScale] != nullptr;
  if (!read_flag(slots[kCausal], causal) || !read_float(slots[kScale], "scale", options.scale) ||
      !read_window(slots[kWindow], "window", options.window_left, options.window_right) ||
      !read_float(slots[kSoftcap], "softcap", options.softcap) || !read_int(slots[kMaxQ], "max_q", options.max_q) ||
      !read_int(slots[kMaxKv], "max_kv", options.max_kv) || !read_layout(slots[kLayout], "layout", options.layout) ||
      !read_flag(slots[kReturnLse], options.wants_lse) ||
      !read_int(slots[kNumSplits], "num_splits", options.num_splits)) {
    return false;
  }
  if (causal) {
    options.window_right = 0;
  }
  return true;
}

// The arrays of one attention call, alive until it is over.
struct LoadedAttention {
  ArrayArg q, k, v, bias, sinks, cu_q, cu_kv, kv_lengths, block_table, out;
  AttentionInputs inputs;
  const TensorView* out_view = nullptr;

  bool load(const AttentionSlots& slots, Family family, ScalarType shape_dtype) {
    const auto optional = [&](int slot, ArrayArg& array, const TensorView*& view, bool writable, ScalarType dtype) {
      if (slots[slot] == nullptr) {
        return true;
      }
      view = &array.view;
      return array.load(slots[slot], attention_signature.name(slot), family, writable, dtype);
    };
    if (!q.load(slots[kQ], "q", family, false, shape_dtype) || !k.load(slots[kK], "k", family, false, shape_dtype) ||
        !v.load(slots[kV], "v", family, false, shape_dtype) ||
        !optional(kBias, bias, inputs.bias, false, shape_dtype) ||
        !optional(kSinks, sinks, inputs.sinks, false, ScalarType::kF32) ||
        !optional(kCuQ, cu_q, inputs.cu_q, false, ScalarType::kI32) ||
        !optional(kCuKv, cu_kv, inputs.cu_kv, false, ScalarType::kI32) ||
        !optional(kKvLengths, kv_lengths, inputs.kv_lengths, false, ScalarType::kI32) ||
        !optional(kBlockTable, block_table, inputs.block_table, false, ScalarType::kI32) ||
        !optional(kOut, out, out_view, true, shape_dtype)) {
      return false;
    }
    inputs.q = q.view;
    inputs.k = k.view;
    inputs.v = v.view;
    return true;
  }
};

bool run_releasing_gil(AttentionCall& call, Failure& failure) {
  if (!is_long_call(call)) {
    return run_attention(call, failure);
  }
  PyThreadState* thread = PyEval_SaveThread();
  const bool ok = run_attention(call, failure);
  PyEval_RestoreThread(thread);
  return ok;
}

constexpr std::array kTensorSlots{kQ, kK, kV, kBias, kSinks, kCuQ, kCuKv, kKvLengths, kBlockTable, kOut};
constexpr std::array kFloatSlots{kQ, kK, kV, kBias, kSinks, kOut};

bool is_torch_tensor(PyObject* object) {
  PyTypeObject* type = torch_binding().tensor_type;
  if (type == nullptr || Py_TYPE(object) == type) {
    return type != nullptr;
  }
  const int answer = PyObject_IsInstance(object, reinterpret_cast<PyObject*>(type));
  PyErr_Clear();
  return answer == 1;
}

// Whether torch's dispatcher may be passed over: exact tensors, nothing to record, nobody listening.
bool may_run_directly(const AttentionSlots& slots) {
  PyTypeObject* type = torch_binding().tensor_type;
  for (const int slot : kTensorSlots) {
    if (slots[slot] != nullptr && Py_TYPE(slots[slot]) != type) {
      return false;
    }
  }
  if (!torch_is_plain()) {
    return false;
  }
  for (const int slot : kFloatSlots) {
    if (slots[slot] != nullptr && torch_is_negated(slots[slot])) {
      return false;
    }
  }
  if (torch_grad_enabled()) {
    for (const int slot : kFloatSlots) {
      if (slots[slot] != nullptr && torch_requires_grad(slots[slot])) {
        return false;
      }
    }
  }
  return true;
}

// What the kernels do not take but the Python side knows how to answer: other devices, and the float64 composite.
bool belongs_to_fallback(const AttentionInputs& inputs) {
  return inputs.q.device != DeviceType::kCpu || inputs.q.dtype == ScalarType::kF64;
}

// Whether a tensor could not be borrowed because it is on a device that DLPack has no name for (meta). Keeps the
// exception that is set.
bool is_elsewhere(PyObject* tensor) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* on_cpu = PyObject_GetAttrString(tensor, "is_cpu");
  const bool elsewhere = on_cpu == Py_False;
  Py_XDECREF(on_cpu);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return elsewhere;
}

PyObject* finish(PyObject* out, PyObject* lse) {
  if (lse == nullptr) {
    return out;
  }
  PyObject* pair = PyTuple_Pack(2, out, lse);
  Py_DECREF(out);
  Py_DECREF(lse);
  return pair;
}

PyObject* run_loaded(LoadedAttention& loaded, const AttentionSlots& slots, Family family,
                     const AttentionOptions& options) {
  AttentionCall call;
  Failure failure;
  if (!prepare_attention(loaded.inputs, options, loaded.out_view, nullptr, call, failure)) {
    return raise(failure);
  }
  PyObject* out = loaded.out_view != nullptr ? Py_NewRef(slots[kOut]) : new_array(family, slots[kQ], call.out);
  if (out == nullptr) {
    return nullptr;
  }
  PyObject* lse = nullptr;
  if (options.wants_lse) {
    lse = new_array(family, slots[kQ], call.lse);
    if (lse == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
  }
  if (!run_releasing_gil(call, failure)) {
    Py_DECREF(out);
    Py_XDECREF(lse);
    return raise(failure);
  }
  return finish(out, lse);
}

PyObject* attention(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  AttentionSlots slots;
  if (!attention_signature.match(args, nargs, kwnames, slots)) {
    return nullptr;
  }
  if (slots[kDtype] != nullptr) {
    PyErr_SetString(PyExc_TypeError, "attention() got an unexpected keyword argument 'dtype'");
    return nullptr;
  }
  const Family family = is_torch_tensor(slots[kQ]) ? Family::kTorch : Family::kNumpy;
  if (family == Family::kTorch && !may_run_directly(slots)) {
    return forward_call(torch_binding().attention_fallback, args, nargs, kwnames);
  }
  AttentionOptions options;
  LoadedAttention loaded;
  if (!read_attention_options(slots, options)) {
    return nullptr;
  }
  if (!loaded.load(slots, family, ScalarType::kOther)) {
    if (family == Family::kTorch && is_elsewhere(slots[kQ])) {
      PyErr_Clear();
      return forward_call(torch_binding().attention_fallback, args, nargs, kwnames);
    }
    return nullptr;
  }
  if (family == Family::kTorch) {
    if (belongs_to_fallback(loaded.inputs)) {
      return forward_call(torch_binding().attention_fallback, args, nargs, kwnames);
    }
    options.threads = torch_threads();
  }
  return run_loaded(loaded, slots, family, options);
}

// Shapes (tuples), tensors or arrays: which family q belongs to.
Family planning_family(PyObject* q) {
  return PyTuple_Check(q) != 0 ? Family::kShape : is_torch_tensor(q) ? Family::kTorch : Family::kNumpy;
}

bool prepare_only(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, AttentionCall& call) {
  AttentionSlots slots;
  AttentionOptions options;
  LoadedAttention loaded;
  ScalarType shape_dtype = ScalarType::kF16;
  if (!attention_signature.match(args, nargs, kwnames, slots) || !read_dtype(slots[kDtype], "dtype", shape_dtype) ||
      !read_attention_options(slots, options)) {
    return false;
  }
  const Family family = planning_family(slots[kQ]);
  if (!loaded.load(slots, family, shape_dtype)) {
    return false;
  }
  options.threads = torch_threads();
  Failure failure;
  if (!prepare_attention(loaded.inputs, options, loaded.out_view, nullptr, call, failure)) {
    raise(failure);
    return false;
  }
  return true;
}

using PlanPrinter = size_t (*)(const fms_attention_plan*, char*, size_t);

std::string print_plan(const fms_attention_plan& plan, PlanPrinter printer) {
  std::string text(printer(&plan, nullptr, 0), '\0');
  printer(&plan, text.data(), text.size() + 1);  // std::string keeps room for the NUL
  return text;
}

PyObject* plan_attention(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  AttentionCall call;
  if (!prepare_only(args, nargs, kwnames, call)) {
    return nullptr;
  }
  return Py_BuildValue("ss", print_plan(call.plan, fms_plan_explain).c_str(),
                       print_plan(call.plan, fms_plan_json).c_str());
}

PyObject* check_attention(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  AttentionCall call;
  return prepare_only(args, nargs, kwnames, call) ? Py_NewRef(Py_None) : nullptr;
}

struct LoadedMerge {
  ArrayArg o_a, lse_a, o_b, lse_b;

  bool load(const std::array<PyObject*, kMergeSlots>& slots, Family family) {
    return o_a.load(slots[kOA], "o_a", family, false, ScalarType::kOther) &&
           lse_a.load(slots[kLseA], "lse_a", family, false, ScalarType::kOther) &&
           o_b.load(slots[kOB], "o_b", family, false, ScalarType::kOther) &&
           lse_b.load(slots[kLseB], "lse_b", family, false, ScalarType::kOther);
  }
};

bool merge_may_run_directly(const std::array<PyObject*, kMergeSlots>& slots) {
  for (const int slot : {kOA, kLseA, kOB, kLseB}) {
    if (Py_TYPE(slots[slot]) != torch_binding().tensor_type) {
      return false;
    }
  }
  if (!torch_is_plain()) {
    return false;
  }
  const bool records = torch_grad_enabled();
  for (const int slot : {kOA, kLseA, kOB, kLseB}) {
    if (torch_is_negated(slots[slot]) || (records && torch_requires_grad(slots[slot]))) {
      return false;
    }
  }
  return true;
}

PyObject* merge_states(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::array<PyObject*, kMergeSlots> slots;
  Layout layout = Layout::kBhsd;
  if (!merge_signature.match(args, nargs, kwnames, slots) || !read_layout(slots[kMergeLayout], "layout", layout)) {
    return nullptr;
  }
  const Family family = is_torch_tensor(slots[kOA]) ? Family::kTorch : Family::kNumpy;
  if (family == Family::kTorch && !merge_may_run_directly(slots)) {
    return forward_call(torch_binding().merge_fallback, args, nargs, kwnames);
  }
  LoadedMerge loaded;
  const bool is_loaded = loaded.load(slots, family);
  if (family == Family::kTorch && (is_loaded ? loaded.o_a.view.device != DeviceType::kCpu : is_elsewhere(slots[kOA]))) {
    PyErr_Clear();
    return forward_call(torch_binding().merge_fallback, args, nargs, kwnames);
  }
  if (!is_loaded) {
    return nullptr;
  }
  MergeCall call;
  Failure failure;
  if (!prepare_merge(loaded.o_a.view, loaded.lse_a.view, loaded.o_b.view, loaded.lse_b.view, layout, call, failure)) {
    return raise(failure);
  }
  PyObject* out = new_array(family, slots[kOA], call.out);
  PyObject* lse = out == nullptr ? nullptr : new_array(family, slots[kOA], call.lse);
  if (lse == nullptr) {
    Py_XDECREF(out);
    return nullptr;
  }
  bool ok = false;
  Py_BEGIN_ALLOW_THREADS;
  ok = run_merge(call, failure);
  Py_END_ALLOW_THREADS;
  if (!ok) {
    Py_DECREF(out);
    Py_DECREF(lse);
    return raise(failure);
  }
  return finish(out, lse);
}

// flash_attention_forward(Q, K, V, lse, causal, scale) and (Q, K, V, causal, scale): the fourth positional argument is
// an array in the first and a flag in the second.
PyObject* flash_attention_forward(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  std::array<PyObject*, kForwardSlots> slots;
  std::array<PyObject*, kForwardSlots + 1> shifted{};
  const bool without_lse = nargs >= 4 && nargs <= 5 && (PyBool_Check(args[3]) != 0 || PyLong_Check(args[3]) != 0);
  const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_Size(kwnames);
  if (without_lse && nargs + keywords <= kForwardSlots) {
    for (Py_ssize_t i = 0; i < nargs + keywords; ++i) {
      shifted[i < 3 ? i : i + 1] = args[i];
    }
    shifted[3] = Py_None;
    args = shifted.data();
    ++nargs;
  }
  if (!forward_signature.match(args, nargs, kwnames, slots)) {
    return nullptr;
  }
  AttentionOptions options;
  bool causal = false;
  options.has_scale = slots[kForwardScale] != nullptr;
  if (!read_flag(slots[kForwardCausal], causal) || !read_float(slots[kForwardScale], "scale", options.scale)) {
    return nullptr;
  }
  options.window_right = causal ? 0 : -1;

  const Family family = is_torch_tensor(slots[kForwardQ]) ? Family::kTorch : Family::kNumpy;
  ArrayArg q, k, v, lse;
  if (!q.load(slots[kForwardQ], "Q", family, false, ScalarType::kOther) ||
      !k.load(slots[kForwardK], "K", family, false, ScalarType::kOther) ||
      !v.load(slots[kForwardV], "V", family, false, ScalarType::kOther) ||
      (slots[kForwardLse] != nullptr && !lse.load(slots[kForwardLse], "lse", family, true, ScalarType::kOther))) {
    return nullptr;
  }
  if (family == Family::kTorch) {
    options.threads = torch_threads();
  }
  AttentionInputs inputs;
  inputs.q = q.view;
  inputs.k = k.view;
  inputs.v = v.view;
  AttentionCall call;
  Failure failure;
  if (!prepare_attention(inputs, options, nullptr, slots[kForwardLse] != nullptr ? &lse.view : nullptr, call,
                         failure)) {
    return raise(failure);
  }
  PyObject* out = new_array(family, slots[kForwardQ], call.out);
  if (out == nullptr) {
    return nullptr;
  }
  if (!run_releasing_gil(call, failure)) {
    Py_DECREF(out);
    return raise(failure);
  }
  return out;
}

PyObject* isa(PyObject* /*module*/, PyObject* /*unused*/) {
  Failure failure;
  const fms_context* context = cpu_context(failure);
  return context == nullptr ? raise(failure) : PyUnicode_FromString(fms_cpu_isa_name(fms_context_cpu_isa(context)));
}

PyObject* last_run(PyObject* /*module*/, PyObject* /*unused*/) {
  static constexpr std::array kFamilyNames{"empty", "tile", "gemv", "amx"};
  const fms_run_info& info = last_run_info();
  return Py_BuildValue("{s:s,s:s,s:i,s:i}", "isa", fms_cpu_isa_name(info.cpu_isa), "family",
                       kFamilyNames.at(static_cast<size_t>(info.family)), "threads", info.threads, "kv_splits",
                       info.kv_splits);
}

// register_torch(tensor_type, attention_fallback, merge_fallback, is_grad_enabled, forward_ad, guards)
PyObject* register_torch(PyObject* /*module*/, PyObject* args) {
  PyObject *tensor_type, *attention_fallback, *merge_fallback, *is_grad_enabled, *forward_ad, *guards;
  if (PyArg_ParseTuple(args, "OOOOOO", &tensor_type, &attention_fallback, &merge_fallback, &is_grad_enabled,
                       &forward_ad, &guards) == 0) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_Check(guards) != 0 ? PyTuple_Size(guards) : -1;
  if (count < 0 || count > TorchBinding::kMaxGuards) {
    PyErr_Format(PyExc_ValueError, "guards must be a tuple of at most %d callables", TorchBinding::kMaxGuards);
    return nullptr;
  }
  // References are kept for the life of the process, as the module itself is; a second registration (tests) leaks the
  // first one's, which a call in another thread may still be using.
  TorchBinding& torch = torch_binding();
  torch.attention_fallback = Py_NewRef(attention_fallback);
  torch.merge_fallback = Py_NewRef(merge_fallback);
  torch.is_grad_enabled = Py_NewRef(is_grad_enabled);
  torch.forward_ad = Py_NewRef(forward_ad);
  torch.guard_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    torch.guards[torch.guard_count++] = Py_NewRef(PyTuple_GetItem(guards, i));
  }
  return bind_torch(tensor_type) ? Py_NewRef(Py_None) : nullptr;
}

template <typename Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr int kFastCall = METH_FASTCALL | METH_KEYWORDS;

PyDoc_STRVAR(attention_doc,
             "attention(q, k, v, *, causal=False, scale=None, window=(-1, -1), softcap=0.0, bias=None, sinks=None, "
             "cu_q=None, cu_kv=None, kv_lengths=None, block_table=None, max_q=None, max_kv=None, layout='bhsd', "
             "return_lse=False, num_splits=0, out=None)\n"
             "--\n\n"
             "softmax(scale * q k^T) v on torch tensors or NumPy arrays of float16, bfloat16 or float32.\n\n"
             "layout names the axes of q, k, v and the result. With cu_q (or cu_kv), int32 offsets of batch + 1\n"
             "sequences, q (or k and v) is packed and drops its b axis. With block_table, int32 (batch, pages), the b\n"
             "axis of k and v counts pages. Queries may have a multiple of the heads of k and v. causal and window\n"
             "align the last query to the last key. Returns the result, contiguous in the same layout, or with\n"
             "return_lse=True the pair of it and the float32 log-sum-exp, (batch, heads, q_len) or packed\n"
             "(heads, total). Differentiable in q, k, v, bias and sinks for torch tensors.");

PyDoc_STRVAR(merge_doc,
             "merge_states(o_a, lse_a, o_b, lse_b, *, layout='bhsd')\n"
             "--\n\n"
             "Combine two attention results over disjoint sets of keys, with their log-sum-exp, into that over all of\n"
             "them. Returns (o, lse).");

PyDoc_STRVAR(
    forward_doc,
    "flash_attention_forward(Q, K, V, lse, causal, scale) or (Q, K, V, causal, scale)\n\n"
    "The forward kernel on (B, H, S, D) arrays; never differentiated. lse: float32 with B * H * S elements of\n"
    "any shape, written in place. Returns O.");

PyMethodDef methods[] = {
    {"attention", as_method(attention), kFastCall, attention_doc},
    {"merge_states", as_method(merge_states), kFastCall, merge_doc},
    {"flash_attention_forward", as_method(flash_attention_forward), kFastCall, forward_doc},
    {"plan_attention", as_method(plan_attention), kFastCall,
     "The plan for attention's arguments, as text and as JSON; q, k, v may be shapes, with dtype='float16'."},
    {"check_attention", as_method(check_attention), kFastCall, "Raise what attention would raise; compute nothing."},
    {"isa", isa, METH_NOARGS, "The CPU instruction set in force: 'scalar', 'avx2', 'avx512' or 'amx'."},
    {"last_run", last_run, METH_NOARGS, "What this thread's last attention call ran: isa, family, threads, kv_splits."},
    {"register_torch", register_torch, METH_VARARGS, "For flashmoe_science._torch."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                 "flashmoe_science._C",
                                 "Attention over the C ABI of libflashmoe.",
                                 -1,
                                 methods,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr};

}  // namespace
}  // namespace flashmoe::python

PyMODINIT_FUNC PyInit__C() {
  using namespace flashmoe::python;
  if (!attention_signature.intern() || !merge_signature.intern() || !forward_signature.intern()) {
    return nullptr;
  }
  Failure failure;
  if (cpu_context(failure) == nullptr) {  // made at import, so that a wrong FLASHMOE_CPU_ISA is seen at once
    return raise(failure);
  }
  PyObject* module = PyModule_Create(&module_definition);
  if (module == nullptr || PyModule_AddStringConstant(module, "__version__", fms_version()) != 0) {
    return nullptr;
  }
  return module;
}
