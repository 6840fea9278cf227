// Arrays of any library that speaks DLPack's Python protocol (`__dlpack__`, `__dlpack_device__`), on the CPU.
#pragma once

#include "py_limited.hpp"

#include "dlpack_abi.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

[[nodiscard]] bool is_dlpack_producer(PyObject* object);

// Where a producer's array is. False with a Python exception set.
[[nodiscard]] bool dlpack_place(PyObject* producer, Place& place);

// Never leaves an exception set.
[[nodiscard]] bool is_on_gpu(PyObject* producer);

// Asks a producer on the CPU for its memory. The view is valid while the capsule (a new reference) lives: it is read,
// never consumed, so that letting go of it is all that the protocol asks for. Null with a Python exception set.
[[nodiscard]] PyObject* borrow_from_producer(PyObject* producer, const char* name, bool writable, TensorView& view);

// The shape, strides, type and memory that DLPack tells of. False with a Python exception set.
[[nodiscard]] bool view_of(const dlpack::Tensor& tensor, const char* name, TensorView& view);

// The method as_bfloat16(capsule): the same capsule, whose 16-bit elements are said to be bfloat16. For results: NumPy
// exports their bits, and has no name for them.
[[nodiscard]] PyObject* as_bfloat16(PyObject* module, PyObject* capsule);

// A function of flashmoe_science._dlpack, borrowed. Null with a Python exception set.
[[nodiscard]] PyObject* dlpack_helper(const char* name);

}  // namespace flashmoe::python
