// What the module knows of torch, all of it learnt at run time.
#pragma once

#include "py_limited.hpp"

#include <array>
#include <cstdint>

namespace flashmoe::python {

// What flashmoe_science._torch registers; empty until then.
struct TorchBinding {
  static constexpr int kMaxGuards = 8;

  PyTypeObject* tensor_type = nullptr;
  const void* exchange_api = nullptr;  // dlpack::ExchangeApi
  PyObject* attention_fallback = nullptr;
  PyObject* merge_fallback = nullptr;
  PyObject* is_grad_enabled = nullptr;
  PyObject* increment_version = nullptr;
  PyObject* forward_ad = nullptr;  // the module; its level says whether dual numbers are alive
  std::array<PyObject*, kMaxGuards> guards{};
  int guard_count = 0;
  int (*get_num_threads)(uint32_t*) = nullptr;  // of torch's C shim; null if this torch has none
};

[[nodiscard]] TorchBinding& torch_binding();

// Finds the exchange table and torch's thread count. False with a Python exception set.
[[nodiscard]] bool bind_torch(PyObject* tensor_type);

// Whether nothing in torch wants to see the call: no dispatch or function mode, no functorch transform, no autocast, no
// tracing, no dual numbers. A guard that fails counts as "something does". Never leaves an exception set.
[[nodiscard]] bool torch_is_plain();
[[nodiscard]] bool torch_grad_enabled();
[[nodiscard]] bool torch_requires_grad(PyObject* tensor);
// Whether the memory holds the tensor's negative (a lazy view that DLPack does not know of).
[[nodiscard]] bool torch_is_negated(PyObject* tensor);
[[nodiscard]] int32_t torch_threads();
// The stream that torch is using on a GPU. False with a Python exception set.
[[nodiscard]] bool torch_current_stream(int gpu, void*& stream);
// Tells autograd that a tensor was written in place. Never leaves an exception set.
void torch_mark_written(PyObject* tensor);

// torch.Tensor or a subclass; false while torch is not registered. Never leaves an exception set.
[[nodiscard]] bool is_torch_tensor(PyObject* object);
// Nested tensors have no strides of their own. Keeps the exception that is set.
[[nodiscard]] bool is_nested(PyObject* tensor);
// Whether a tensor could not be borrowed because it is on a device that DLPack has no name for (meta). Keeps the
// exception that is set.
[[nodiscard]] bool is_elsewhere(PyObject* tensor);

// The method register_torch(tensor_type, attention_fallback, merge_fallback, is_grad_enabled,
// increment_version, forward_ad, guards).
[[nodiscard]] PyObject* register_torch(PyObject* module, PyObject* args);

}  // namespace flashmoe::python
