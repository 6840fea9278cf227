// flashmoe_science._C: attention on torch tensors and NumPy arrays without any Python on the way, and without linking
// torch. What needs torch's dispatcher (gradients, modes, transforms, subclasses) is handed to the Python function that
// flashmoe_science._torch registers.
#include <array>
#include <string>

#include "attention_call.hpp"
#include "contexts.hpp"
#include "py_arrays.hpp"
#include "py_dlpack.hpp"
#include "py_functions.hpp"
#include "py_torch.hpp"

namespace flashmoe::python {
namespace {

PyObject* isa(PyObject* /*module*/, PyObject* /*unused*/) {
  Failure failure;
  const fms_context* context = context_at({}, failure);
  return context == nullptr ? raise(failure) : PyUnicode_FromString(fms_cpu_isa_name(fms_context_cpu_isa(context)));
}

PyObject* last_run(PyObject* /*module*/, PyObject* /*unused*/) {
  static constexpr std::array kFamilyNames{"empty", "tile", "gemv", "amx", "cuda_forward"};
  const fms_run_info& info = last_run_info();
  return Py_BuildValue("{s:s,s:s,s:i,s:i}", "isa", fms_cpu_isa_name(info.cpu_isa), "family",
                       kFamilyNames.at(static_cast<size_t>(info.family)), "threads", info.threads, "kv_splits",
                       info.kv_splits);
}

template <typename Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

constexpr int kFastCall = METH_FASTCALL | METH_KEYWORDS;

constexpr char attention_doc[] =
    "attention(q, k, v, *"
#define FMS_OPTION(slot, name, stub, default, schema) ", " #name "=" default
#define FMS_FLOATS(slot, name, dtype) ", " #name "=None"
#define FMS_INDICES(slot, name) ", " #name "=None"
#define FMS_RESULT(slot, name) ", " #name "=None"
#include "attention_arguments.def"
    ")\n"
    "--\n\n"
    "softmax(scale * q k^T) v on torch tensors, NumPy arrays or others with __dlpack__, of float16, bfloat16 or\n"
    "float32. The result is an array of the same library. v may have another last dimension than q and k; the\n"
    "result has that of v.\n\n"
    "layout names the axes of q, k, v and the result. With cu_q (or cu_kv), int32 offsets of batch + 1\n"
    "sequences, q (or k and v) is packed and drops its b axis. With block_table, int32 (batch, pages), the b\n"
    "axis of k and v counts pages. Queries may have a multiple of the heads of k and v. causal and window\n"
    "align the last query to the last key, with top_left the first to the first. Of sequence b there are the\n"
    "keys from kv_starts[b] up to kv_lengths[b], and the first q_lengths[b] rows; the others come out as 0.\n"
    "bias and bias2 are added to the scores and broadcast to (batch, heads, q_len, kv_len); of five\n"
    "dimensions the first two make up the batch, and (n, 1, ...) is shared by batch / n neighbours each.\n"
    "mask is bool and broadcasts likewise: where it is False the key does not exist for the row; one of\n"
    "(batch, keys) is mask[:, None, None, :]. k and v may be float8_e4m3fn, times float32 k_scales and v_scales,\n"
    "one per head of k.\n"
    "Returns the result, contiguous in the same layout, or with return_lse=True the pair of it and the\n"
    "float32 log-sum-exp, (batch, heads, q_len) or packed (heads, total). With partial=True the result is\n"
    "float32, for merge_states. out receives the result and must not share memory with an input.\n"
    "Differentiable in q, k, v, bias and sinks for torch tensors.";

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
    {"check_attention", as_method(check_attention), kFastCall,
     "Raise what attention would raise; compute nothing. Also for descriptions: (sizes, strides, dtype, device)."},
    {"check_merge", as_method(check_merge), kFastCall, "The same for merge_states; of descriptions only."},
    {"isa", isa, METH_NOARGS, "The CPU instruction set in force: 'scalar', 'avx2', 'avx512' or 'amx'."},
    {"last_run", last_run, METH_NOARGS, "What this thread's last attention call ran: isa, family, threads, kv_splits."},
    {"as_bfloat16", as_bfloat16, METH_O, "For flashmoe_science._dlpack: call a capsule's 16-bit elements bfloat16."},
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

PyMODINIT_FUNC PyInit__C() {  // NOLINT(bugprone-reserved-identifier): the name that Python looks for
  using namespace flashmoe::python;
  if (!init_attention_functions() || !init_merge_function()) {
    return nullptr;
  }
  Failure failure;
  if (context_at({}, failure) == nullptr) {  // made at import, so that a wrong FLASHMOE_CPU_ISA is seen at once
    return raise(failure);
  }
  PyObject* module = PyModule_Create(&module_definition);
  if (module == nullptr || PyModule_AddStringConstant(module, "__version__", fms_version()) != 0) {
    return nullptr;
  }
  return module;
}
