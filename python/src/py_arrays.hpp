// Arrays of Python: torch tensors through the DLPack exchange table, NumPy arrays through the buffer protocol.
#pragma once

#ifndef Py_LIMITED_API
#error "compile with Py_LIMITED_API: one binary serves every CPython from 3.11 on"
#endif
#include <Python.h>

#include <array>
#include <string>

#include "attention_call.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

enum class Family : uint8_t {
  kTorch,  // exact torch.Tensor
  kNumpy,
  kShape  // a tuple of ints, for planning without data
};

// What flashmoe_science._torch registers; empty until then.
struct TorchBinding {
  static constexpr int kMaxGuards = 8;

  PyTypeObject* tensor_type = nullptr;
  const void* exchange_api = nullptr;  // dlpack::ExchangeApi
  PyObject* attention_fallback = nullptr;
  PyObject* merge_fallback = nullptr;
  PyObject* is_grad_enabled = nullptr;
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

// A borrowed array: its view is valid while this lives and the caller holds the object.
class ArrayArg {
 public:
  ArrayArg() = default;
  ArrayArg(const ArrayArg&) = delete;
  ArrayArg& operator=(const ArrayArg&) = delete;
  ~ArrayArg();

  // False with a Python exception set. `shape_dtype` is the type that a kShape argument stands for.
  [[nodiscard]] bool load(PyObject* object, const char* name, Family family, bool writable, ScalarType shape_dtype);

  TensorView view;

 private:
  [[nodiscard]] bool load_torch(PyObject* object, const char* name);
  [[nodiscard]] bool load_buffer(PyObject* object, const char* name, bool writable);
  [[nodiscard]] bool load_shape(PyObject* object, const char* name, ScalarType dtype);

  Py_buffer buffer_{};
  bool has_buffer_ = false;
};

// A new array of the spec's shape and dtype, contiguous; spec.data is set to its memory. `like` gives NumPy's dtype
// object. Null with a Python exception set.
[[nodiscard]] PyObject* new_array(Family family, PyObject* like, TensorView& spec);

// Sets the Python exception for the failure and returns null.
PyObject* raise(const Failure& failure);

}  // namespace flashmoe::python
