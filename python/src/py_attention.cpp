// attention and what shares its arguments. Plain torch tensors (on the CPU or a GPU), NumPy arrays and other arrays on
// the CPU are computed here; what torch's dispatcher has to see is handed to the registered Python function, and other
// libraries' arrays on a GPU to flashmoe_science._dlpack.
#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "attention_call.hpp"
#include "py_arrays.hpp"
#include "py_call_args.hpp"
#include "py_dlpack.hpp"
#include "py_functions.hpp"
#include "py_torch.hpp"

namespace flashmoe::python {
namespace {

enum AttentionSlot {
#define FMS_REQUIRED(slot, ...) slot,
#define FMS_OPTION(slot, ...) slot,
#define FMS_FLOATS(slot, ...) slot,
#define FMS_INDICES(slot, ...) slot,
#define FMS_RESULT(slot, ...) slot,
#include "attention_arguments.def"
  kDtype,   // plan_attention only
  kDevice,  // likewise
  kAttentionSlots
};
using AttentionSlots = std::array<PyObject*, kAttentionSlots>;

Signature<kAttentionSlots> attention_signature("attention", 3, 3,
#define FMS_REQUIRED(slot, name) #name,
#define FMS_OPTION(slot, name, ...) #name,
#define FMS_FLOATS(slot, name, ...) #name,
#define FMS_INDICES(slot, name) #name,
#define FMS_RESULT(slot, name) #name,
#include "attention_arguments.def"
                                               "dtype", "device");

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
      !read_int(slots[kNumSplits], "num_splits", options.num_splits) || !read_flag(slots[kTopLeft], options.top_left) ||
      !read_flag(slots[kPartial], options.partial)) {
    return false;
  }
  if (causal) {
    options.window_right = 0;
  }
  return true;
}

// The arrays of one attention call, alive until it is over.
struct LoadedAttention {
#define FMS_REQUIRED(slot, name) ArrayArg name;
#define FMS_FLOATS(slot, name, dtype) ArrayArg name;
#define FMS_INDICES(slot, name) ArrayArg name;
#define FMS_RESULT(slot, name) ArrayArg name;
#include "attention_arguments.def"
  AttentionInputs inputs;
  const TensorView* out_view = nullptr;

  // Of shapes, which are nowhere by themselves.
  void set_place(Place place) {
#define FMS_REQUIRED(slot, name) name.view.place = inputs.name.place = place;
#define FMS_FLOATS(slot, name, dtype) name.view.place = place;
#define FMS_INDICES(slot, name) name.view.place = place;
#define FMS_RESULT(slot, name) name.view.place = place;
#include "attention_arguments.def"
  }

  bool load(const AttentionSlots& slots, Family family, ScalarType shape_dtype) {
    const auto optional = [&](int slot, ArrayArg& array, const TensorView*& view, bool writable, ScalarType dtype) {
      if (slots[slot] == nullptr) {
        return true;
      }
      view = &array.view;
      return array.load(slots[slot], attention_signature.name(slot), family, writable, dtype);
    };
#define FMS_REQUIRED(slot, name)                                                \
  if (!name.load(slots[slot], #name, family, false, shape_dtype)) return false; \
  inputs.name = name.view;
#define FMS_FLOATS(slot, name, dtype) \
  if (!optional(slot, name, inputs.name, false, dtype)) return false;
#define FMS_INDICES(slot, name) \
  if (!optional(slot, name, inputs.name, false, ScalarType::kI32)) return false;
#define FMS_RESULT(slot, name) \
  if (!optional(slot, name, name##_view, true, shape_dtype)) return false;
#include "attention_arguments.def"
    inputs.are_described = family == Family::kDescription;
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

// On torch's current stream, with a workspace of torch's allocator: nothing waits, and a stream may be capturing.
bool queue_or_raise(AttentionCall& call) {
  const int gpu = call.out.place.index;
  TorchScratch workspace;
  void* stream = nullptr;
  if ((call.plan.workspace_bytes > 0 && !workspace.allocate(gpu, call.plan.workspace_bytes)) ||
      !torch_current_stream(gpu, stream)) {
    return false;
  }
  Failure failure;
  if (!queue_attention(call, workspace.data(), stream, failure)) {
    raise(failure);
    return false;
  }
  return true;
}

// False with a Python exception set.
bool run_or_raise(AttentionCall& call) {
  if (call.out.place.device == DeviceType::kCuda) {
    return queue_or_raise(call);
  }
  Failure failure;
  if (!run_releasing_gil(call, failure)) {
    raise(failure);
    return false;
  }
  return true;
}

constexpr AttentionSlot kTensorSlots[] = {
#define FMS_REQUIRED(slot, ...) slot,
#define FMS_FLOATS(slot, ...) slot,
#define FMS_INDICES(slot, ...) slot,
#define FMS_RESULT(slot, ...) slot,
#include "attention_arguments.def"
};
constexpr AttentionSlot kFloatSlots[] = {
#define FMS_REQUIRED(slot, ...) slot,
#define FMS_FLOATS(slot, ...) slot,
#define FMS_RESULT(slot, ...) slot,
#include "attention_arguments.def"
};

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

// For the error that a call with something else among its tensors deserves, before torch gives one of its own.
bool check_all_tensors(const AttentionSlots& slots) {
  return std::all_of(std::begin(kTensorSlots), std::end(kTensorSlots), [&](int slot) {
    return slots[slot] == nullptr || check_is_tensor(slots[slot], attention_signature.name(slot));
  });
}

// Tensors that cannot be borrowed but that the Python side knows how to answer. Keeps the exception that is set.
bool is_answered_by_fallback(const AttentionSlots& slots) {
  return is_elsewhere(slots[kQ]) || std::any_of(std::begin(kTensorSlots), std::end(kTensorSlots), [&](int slot) {
           return slots[slot] != nullptr && is_torch_tensor(slots[slot]) && is_nested(slots[slot]);
         });
}

// What the kernels do not take but the Python side knows how to answer: other devices, and the float64 composite.
bool belongs_to_fallback(const AttentionInputs& inputs) {
  return inputs.q.place.device == DeviceType::kOther || inputs.q.dtype == ScalarType::kF64;
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
  if (!run_or_raise(call)) {
    Py_DECREF(out);
    Py_XDECREF(lse);
    return nullptr;
  }
  if (family == Family::kTorch && loaded.out_view != nullptr) {
    torch_mark_written(out);
  }
  if (loaded.out_view == nullptr) {
    out = given_back(family, slots[kQ], out, call.out.dtype);
  }
  if (!options.wants_lse) {
    return out;
  }
  return pair_of(out, out == nullptr ? lse : given_back(family, slots[kQ], lse, ScalarType::kF32));
}

// Shapes or descriptions (tuples), tensors or arrays: which family q belongs to.
Family planning_family(PyObject* q) {
  if (PyTuple_Check(q) == 0) {
    return family_of(q);
  }
  const bool holds_ints = PyTuple_Size(q) == 0 || PyLong_Check(PyTuple_GetItem(q, 0)) != 0;
  return holds_ints ? Family::kShape : Family::kDescription;
}

bool prepare_only(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames, AttentionCall& call) {
  AttentionSlots slots;
  AttentionOptions options;
  LoadedAttention loaded;
  ScalarType shape_dtype = ScalarType::kF16;
  Place place;
  if (!attention_signature.match(args, nargs, kwnames, slots) || !read_dtype(slots[kDtype], "dtype", shape_dtype) ||
      !read_place(slots[kDevice], "device", place) || !read_attention_options(slots, options)) {
    return false;
  }
  const Family family = planning_family(slots[kQ]);
  if (slots[kDevice] != nullptr && family != Family::kShape) {
    PyErr_SetString(PyExc_ValueError, "device is only for shapes; arrays are where they are");
    return false;
  }
  if (!loaded.load(slots, family, shape_dtype)) {
    return false;
  }
  if (family == Family::kShape) {
    loaded.set_place(place);
  }
  options.threads = torch_threads();
  Failure failure;
  const bool ok = family == Family::kDescription
                      ? check_description(loaded.inputs, options, loaded.out_view, failure)
                      : prepare_attention(loaded.inputs, options, loaded.out_view, nullptr, call, failure);
  if (!ok) {
    raise(failure);
  }
  return ok;
}

using PlanPrinter = size_t (*)(const fms_attention_plan*, char*, size_t);

std::string print_plan(const fms_attention_plan& plan, PlanPrinter printer) {
  std::string text(printer(&plan, nullptr, 0), '\0');
  printer(&plan, text.data(), text.size() + 1);  // std::string keeps room for the NUL
  return text;
}

}  // namespace

bool init_attention_functions() {
  return attention_signature.intern() && forward_signature.intern();
}

PyObject* attention(PyObject* /*module*/, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  AttentionSlots slots;
  if (!attention_signature.match(args, nargs, kwnames, slots)) {
    return nullptr;
  }
  for (const int slot : {kDtype, kDevice}) {
    if (slots[slot] != nullptr) {
      return PyErr_Format(PyExc_TypeError, "attention() got an unexpected keyword argument '%s'",
                          attention_signature.name(slot));
    }
  }
  const Family family = family_of(slots[kQ]);
  if (family == Family::kTorch && !may_run_directly(slots)) {
    return check_all_tensors(slots) ? forward_call(torch_binding().attention_fallback, args, nargs, kwnames) : nullptr;
  }
  if (family == Family::kDlpack && is_on_gpu(slots[kQ])) {
    return forward_call(dlpack_helper("attention"), args, nargs, kwnames);
  }
  AttentionOptions options;
  LoadedAttention loaded;
  if (!read_attention_options(slots, options)) {
    return nullptr;
  }
  if (!loaded.load(slots, family, ScalarType::kOther)) {
    if (family == Family::kTorch && is_answered_by_fallback(slots)) {
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

  const Family family = family_of(slots[kForwardQ]);
  if (family == Family::kTorch) {
    // The memory of a lazily negated view has the other sign.
    for (const int slot : {kForwardQ, kForwardK, kForwardV}) {
      if (Py_TYPE(slots[slot]) == torch_binding().tensor_type && torch_is_negated(slots[slot])) {
        return PyErr_Format(PyExc_ValueError, "%s is a lazily negated view; pass its resolve_neg()",
                            forward_signature.name(slot));
      }
    }
  }
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
  if (!run_or_raise(call)) {
    Py_DECREF(out);
    return nullptr;
  }
  if (family == Family::kTorch && slots[kForwardLse] != nullptr) {
    torch_mark_written(slots[kForwardLse]);
  }
  return given_back(family, slots[kForwardQ], out, call.out.dtype);
}
}  // namespace flashmoe::python
