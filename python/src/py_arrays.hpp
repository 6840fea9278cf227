// Arrays of Python: torch tensors through the DLPack exchange table, NumPy arrays through the buffer protocol.
#pragma once

#include "py_limited.hpp"

#include <string>

#include "failure.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

enum class Family : uint8_t {
  kTorch,  // exact torch.Tensor
  kNumpy,
  kShape  // a tuple of ints, for planning without data
};

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

// Memory of torch's allocator on a GPU. It goes back with this object, also while a kernel that uses it is queued: its
// next owner's work comes later on the same stream.
class TorchScratch {
 public:
  TorchScratch() = default;
  TorchScratch(const TorchScratch&) = delete;
  TorchScratch& operator=(const TorchScratch&) = delete;
  ~TorchScratch();

  // False with a Python exception set.
  [[nodiscard]] bool allocate(int gpu, size_t bytes);
  [[nodiscard]] void* data() const;

 private:
  void* managed_ = nullptr;  // dlpack::ManagedTensor
};

// A tuple that takes over both references, also when it fails.
[[nodiscard]] PyObject* pair_of(PyObject* first, PyObject* second);

// Sets the Python exception for the failure and returns null.
PyObject* raise(const Failure& failure);

}  // namespace flashmoe::python
