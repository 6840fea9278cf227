#include "py_dlpack.hpp"

#include "dlpack_abi.hpp"
#include "py_arrays.hpp"
#include "tensor_checks.hpp"

namespace flashmoe::python {
namespace {

// The tensor in a capsule of either kind. Null with a Python exception set.
dlpack::Tensor* tensor_in(PyObject* capsule, const char* name, bool& is_read_only) {
  is_read_only = false;
  if (PyCapsule_IsValid(capsule, dlpack::kVersionedCapsule) != 0) {
    auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kVersionedCapsule));
    if (managed->version.major != dlpack::kMajorVersion) {
      PyErr_Format(PyExc_BufferError, "%s: its library speaks DLPack %u.%u; 0.x and %u.x are understood", name,
                   managed->version.major, managed->version.minor, dlpack::kMajorVersion);
      return nullptr;
    }
    is_read_only = (managed->flags & dlpack::kReadOnlyFlag) != 0;
    return &managed->tensor;
  }
  if (PyCapsule_IsValid(capsule, dlpack::kUnversionedCapsule) != 0) {
    return &static_cast<dlpack::UnversionedTensor*>(PyCapsule_GetPointer(capsule, dlpack::kUnversionedCapsule))->tensor;
  }
  PyErr_Format(PyExc_BufferError, "%s: its __dlpack__ gave %R, no capsule of DLPack's", name, capsule);
  return nullptr;
}

// __dlpack__(max_version=(1, 0)), or without the argument from libraries older than DLPack 1.0.
PyObject* ask_for_capsule(PyObject* producer) {
  PyObject* method = PyObject_GetAttrString(producer, "__dlpack__");
  if (method == nullptr) {
    return nullptr;
  }
  PyObject* nothing = PyTuple_New(0);
  PyObject* keywords = Py_BuildValue("{s:(II)}", "max_version", dlpack::kMajorVersion, 0U);
  PyObject* capsule = nullptr;
  if (nothing != nullptr && keywords != nullptr) {
    capsule = PyObject_Call(method, nothing, keywords);
    if (capsule == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
      PyErr_Clear();
      capsule = PyObject_CallNoArgs(method);
    }
  }
  Py_XDECREF(keywords);
  Py_XDECREF(nothing);
  Py_DECREF(method);
  return capsule;
}

}  // namespace

bool is_dlpack_producer(PyObject* object) {
  return PyObject_HasAttrString(object, "__dlpack__") != 0 && PyObject_HasAttrString(object, "__dlpack_device__") != 0;
}

bool dlpack_place(PyObject* producer, Place& place) {
  PyObject* device = PyObject_CallMethod(producer, "__dlpack_device__", nullptr);
  if (device == nullptr) {
    return false;
  }
  PyObject* type = PySequence_GetItem(device, 0);  // may be an IntEnum
  PyObject* index = type == nullptr ? nullptr : PySequence_GetItem(device, 1);
  if (index != nullptr) {
    switch (PyLong_AsLong(type)) {
      case dlpack::kCpu:
      case dlpack::kCudaHost:
        place = Place{};
        break;
      case dlpack::kCuda:
      case dlpack::kCudaManaged:
        place = {DeviceType::kCuda, static_cast<int>(PyLong_AsLong(index))};
        break;
      default:
        place = {DeviceType::kOther, 0};
    }
  }
  Py_XDECREF(index);
  Py_XDECREF(type);
  Py_DECREF(device);
  return PyErr_Occurred() == nullptr;
}

bool is_on_gpu(PyObject* producer) {
  Place place;
  const bool is_known = dlpack_place(producer, place);
  PyErr_Clear();
  return is_known && place.device == DeviceType::kCuda;
}

bool view_of(const dlpack::Tensor& tensor, const char* name, TensorView& view) {
  if (tensor.ndim > kMaxDims) {
    return raise_too_many_dims(name, tensor.ndim);
  }
  view.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  view.dtype = scalar_type_of(tensor.dtype);
  view.ndim = tensor.ndim;
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    view.shape[axis] = tensor.shape[axis];
    view.strides[axis] = tensor.strides == nullptr ? 0 : tensor.strides[axis];
  }
  if (tensor.strides == nullptr) {
    set_contiguous_strides(view);
  }
  if (view.data == nullptr && element_count(view) != 0) {
    PyErr_Format(PyExc_ValueError, "%s has no memory (a meta, fake or zero tensor?)", name);
    return false;
  }
  return true;
}

PyObject* borrow_from_producer(PyObject* producer, const char* name, bool writable, TensorView& view) {
  Place place;
  if (!dlpack_place(producer, place)) {
    return nullptr;
  }
  view.place = place;
  Failure failure;
  if (!check_place(name, view, Place{}, failure)) {
    return raise(failure);
  }
  PyObject* capsule = ask_for_capsule(producer);
  if (capsule == nullptr) {
    return nullptr;
  }
  bool is_read_only = false;
  const dlpack::Tensor* tensor = tensor_in(capsule, name, is_read_only);
  if (tensor != nullptr && is_read_only && writable) {
    PyErr_Format(PyExc_ValueError, "%s is read-only; it is to be written to", name);
    tensor = nullptr;
  }
  if (tensor == nullptr || !view_of(*tensor, name, view)) {
    Py_DECREF(capsule);
    return nullptr;
  }
  return capsule;
}

PyObject* as_bfloat16(PyObject* /*module*/, PyObject* capsule) {
  bool is_read_only = false;
  dlpack::Tensor* tensor = tensor_in(capsule, "the result", is_read_only);
  if (tensor == nullptr) {
    return nullptr;
  }
  tensor->dtype = dlpack_type_of(ScalarType::kBF16);
  return Py_NewRef(capsule);
}

PyObject* dlpack_helper(const char* name) {
  PyObject* module = PyImport_ImportModule("flashmoe_science._dlpack");
  PyObject* function = module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  Py_XDECREF(function);  // the module, which sys.modules keeps, has it
  Py_XDECREF(module);
  return function;
}

}  // namespace flashmoe::python
