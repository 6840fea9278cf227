// Arrays of Python: torch tensors through the DLPack exchange table, NumPy arrays through the buffer protocol, all
// others through DLPack's capsules.
#pragma once

#include "py_limited.hpp"

#include <string>

#include "failure.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

enum class Family : uint8_t {
  kTorch,
  kNumpy,       // and whatever else has a buffer
  kDlpack,      // arrays of another library; as kNumpy, but results go back to that library
  kShape,       // a tuple of ints, for planning without data
  kDescription  // a tensor without memory: (sizes, strides, dtype, device)
};

// The family of a call, by its first array: kTorch, kNumpy or kDlpack.
[[nodiscard]] Family family_of(PyObject* array);
// Whether it is a torch.Tensor; false with a Python exception set.
[[nodiscard]] bool check_is_tensor(PyObject* object, const char* name);

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
  [[nodiscard]] bool load_host(PyObject* object, const char* name, bool writable);
  [[nodiscard]] bool load_buffer(PyObject* object, const char* name, bool writable);
  [[nodiscard]] bool load_shape(PyObject* object, const char* name, ScalarType dtype);
  [[nodiscard]] bool load_description(PyObject* object, const char* name);

  Py_buffer buffer_{};
  bool has_buffer_ = false;
  PyObject* capsule_ = nullptr;
};

// A new array of the spec's shape and dtype, contiguous; spec.data is set to its memory. `like` gives NumPy's dtype
// object. Null with a Python exception set.
[[nodiscard]] PyObject* new_array(Family family, PyObject* like, TensorView& spec);

// The same array, once it has its values, as the caller's library has them. Takes over the reference; null with a
// Python exception set.
[[nodiscard]] PyObject* given_back(Family family, PyObject* like, PyObject* array, ScalarType dtype);

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

// False, with the Python exception.
bool raise_too_many_dims(const char* name, int64_t ndim);

// A tuple that takes over both references, also when it fails or when one of them is null.
[[nodiscard]] PyObject* pair_of(PyObject* first, PyObject* second);

// Sets the Python exception for the failure and returns null.
PyObject* raise(const Failure& failure);

}  // namespace flashmoe::python
