#include "py_arrays.hpp"

#include <cstring>

#include "dlpack_abi.hpp"
#include "py_torch.hpp"

namespace flashmoe::python {
namespace {

const dlpack::ExchangeApi& exchange_api() {
  return *static_cast<const dlpack::ExchangeApi*>(torch_binding().exchange_api);
}

ScalarType scalar_type_of(dlpack::DataType type) {
  if (type.lanes != 1) {
    return ScalarType::kOther;
  }
  switch (type.code) {
    case dlpack::kFloat:
      return type.bits == 16   ? ScalarType::kF16
             : type.bits == 32 ? ScalarType::kF32
             : type.bits == 64 ? ScalarType::kF64
                               : ScalarType::kOther;
    case dlpack::kBfloat:
      return type.bits == 16 ? ScalarType::kBF16 : ScalarType::kOther;
    case dlpack::kInt:
      return type.bits == 32 ? ScalarType::kI32 : type.bits == 64 ? ScalarType::kI64 : ScalarType::kOther;
    case dlpack::kBool:
      return ScalarType::kBool;
    default:
      return ScalarType::kOther;
  }
}

dlpack::DataType dlpack_type_of(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return {dlpack::kFloat, 16, 1};
    case ScalarType::kBF16:
      return {dlpack::kBfloat, 16, 1};
    default:
      return {dlpack::kFloat, 32, 1};
  }
}

// The struct module's codes for native single elements.
ScalarType scalar_type_of(const Py_buffer& buffer) {
  const char* format = buffer.format == nullptr ? "B" : buffer.format;
  if (*format == '@' || *format == '=' || *format == '<') {
    ++format;
  }
  if (std::strlen(format) != 1) {
    return ScalarType::kOther;
  }
  switch (*format) {
    case 'e':
      return ScalarType::kF16;
    case 'f':
      return ScalarType::kF32;
    case 'd':
      return ScalarType::kF64;
    case '?':
      return ScalarType::kBool;
    case 'i':
    case 'l':
    case 'q':
      return buffer.itemsize == 4 ? ScalarType::kI32 : ScalarType::kI64;
    default:
      return ScalarType::kOther;
  }
}

bool raise_too_many_dims(const char* name, int64_t ndim) {
  PyErr_Format(PyExc_ValueError, "%s has %lld dimensions; at most %d are allowed", name, static_cast<long long>(ndim),
               kMaxDims);
  return false;
}

// Replaces torch's own exception, which does not know the argument's name.
bool raise_not_dense(PyObject* tensor, const char* name) {
  PyErr_Clear();
  PyObject* layout = PyObject_GetAttrString(tensor, "layout");
  PyObject* device = layout == nullptr ? nullptr : PyObject_GetAttrString(tensor, "device");
  if (device != nullptr) {
    PyErr_Format(PyExc_ValueError,
                 "%s has layout %S on %S; expected a dense (strided) tensor on the CPU or a CUDA device", name, layout,
                 device);
  }
  Py_XDECREF(device);
  Py_XDECREF(layout);
  return false;
}

void set_python_error(void* /*context*/, const char* kind, const char* message) {
  PyGILState_STATE gil = PyGILState_Ensure();
  PyErr_Format(PyExc_RuntimeError, "torch could not allocate the result: %s: %s", kind, message);
  PyGILState_Release(gil);
}

PyObject* new_torch_tensor(TensorView& spec) {
  dlpack::Tensor prototype{};
  prototype.device = {spec.place.device == DeviceType::kCuda ? dlpack::kCuda : dlpack::kCpu, spec.place.index};
  prototype.ndim = spec.ndim;
  prototype.dtype = dlpack_type_of(spec.dtype);
  prototype.shape = spec.shape.data();
  prototype.strides = spec.strides.data();
  dlpack::ManagedTensor* managed = nullptr;
  if (exchange_api().allocate(&prototype, &managed, nullptr, set_python_error) != 0) {
    return nullptr;
  }
  spec.data = static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
  void* object = nullptr;
  if (exchange_api().managed_to_object(managed, &object) != 0) {
    return nullptr;
  }
  return static_cast<PyObject*>(object);
}

// Owned reference to an attribute of a module that is imported once; never released.
PyObject* numpy_empty() {
  static PyObject* empty = nullptr;
  if (empty == nullptr) {
    PyObject* numpy = PyImport_ImportModule("numpy");
    if (numpy == nullptr) {
      return nullptr;
    }
    empty = PyObject_GetAttrString(numpy, "empty");
    Py_DECREF(numpy);
  }
  return empty;
}

PyObject* new_numpy_array(PyObject* like, TensorView& spec) {
  PyObject* empty = numpy_empty();
  if (empty == nullptr) {
    return nullptr;
  }
  PyObject* shape = PyTuple_New(spec.ndim);
  if (shape == nullptr) {
    return nullptr;
  }
  for (int axis = 0; axis < spec.ndim; ++axis) {
    PyTuple_SetItem(shape, axis, PyLong_FromLongLong(spec.shape[axis]));
  }
  // bfloat16 is not NumPy's own type: only the input's dtype object names it.
  PyObject* dtype =
      spec.dtype == ScalarType::kF32 ? PyUnicode_FromString("float32") : PyObject_GetAttrString(like, "dtype");
  PyObject* array = dtype == nullptr ? nullptr : PyObject_CallFunctionObjArgs(empty, shape, dtype, nullptr);
  Py_XDECREF(dtype);
  Py_DECREF(shape);
  if (array == nullptr) {
    return nullptr;
  }
  // The array's address does not change while we hold the reference that the caller returns.
  PyObject* interface = PyObject_GetAttrString(array, "__array_interface__");
  PyObject* data = interface == nullptr ? nullptr : PyMapping_GetItemString(interface, "data");
  PyObject* address = data == nullptr ? nullptr : PySequence_GetItem(data, 0);
  spec.data = address == nullptr ? nullptr : PyLong_AsVoidPtr(address);
  Py_XDECREF(address);
  Py_XDECREF(data);
  Py_XDECREF(interface);
  if (PyErr_Occurred() != nullptr) {
    Py_DECREF(array);
    return nullptr;
  }
  return array;
}

// ml_dtypes' bfloat16 does not speak the buffer protocol; its bits do.
PyObject* bfloat16_bits(PyObject* object) {
  PyObject* dtype = PyObject_GetAttrString(object, "dtype");
  PyObject* dtype_name = dtype == nullptr ? nullptr : PyObject_GetAttrString(dtype, "name");
  const bool is_bfloat16 = dtype_name != nullptr && PyUnicode_Check(dtype_name) &&
                           PyUnicode_CompareWithASCIIString(dtype_name, "bfloat16") == 0;
  Py_XDECREF(dtype_name);
  Py_XDECREF(dtype);
  return is_bfloat16 ? PyObject_CallMethod(object, "view", "s", "uint16") : nullptr;
}

}  // namespace

ArrayArg::~ArrayArg() {
  if (has_buffer_) {
    PyBuffer_Release(&buffer_);
  }
}

bool ArrayArg::load(PyObject* object, const char* name, Family family, bool writable, ScalarType shape_dtype) {
  switch (family) {
    case Family::kTorch:
      return load_torch(object, name);
    case Family::kNumpy:
      return load_buffer(object, name, writable);
    case Family::kShape:
      return load_shape(object, name, shape_dtype);
  }
  return false;
}

bool ArrayArg::load_torch(PyObject* object, const char* name) {
  PyTypeObject* tensor_type = torch_binding().tensor_type;
  if (Py_TYPE(object) != tensor_type && PyObject_IsInstance(object, reinterpret_cast<PyObject*>(tensor_type)) != 1) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a torch.Tensor like q", name, Py_TYPE(object));
    return false;
  }
  dlpack::Tensor tensor;
  if (exchange_api().borrow_from_object(object, &tensor) != 0) {
    return raise_not_dense(object, name);
  }
  if (tensor.ndim > kMaxDims) {
    return raise_too_many_dims(name, tensor.ndim);
  }
  view.data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  view.dtype = scalar_type_of(tensor.dtype);
  view.place.device = tensor.device.type == dlpack::kCpu    ? DeviceType::kCpu
                      : tensor.device.type == dlpack::kCuda ? DeviceType::kCuda
                                                            : DeviceType::kOther;
  view.place.index = view.place.device == DeviceType::kCuda ? tensor.device.index : 0;
  view.ndim = tensor.ndim;
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    view.shape[axis] = tensor.shape[axis];
    view.strides[axis] = tensor.strides[axis];
  }
  if (view.data == nullptr && element_count(view) != 0) {
    PyErr_Format(PyExc_ValueError, "%s has no memory (a meta, fake or zero tensor?)", name);
    return false;
  }
  return true;
}

bool ArrayArg::load_buffer(PyObject* object, const char* name, bool writable) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  bool is_bfloat16 = false;
  if (PyObject_CheckBuffer(object) == 0) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a torch.Tensor or a NumPy array", name, Py_TYPE(object));
    return false;
  }
  if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject* bits = bfloat16_bits(object);
    if (bits == nullptr) {
      PyErr_Clear();
      PyErr_Restore(type, value, traceback);
      return false;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    const int status = PyObject_GetBuffer(bits, &buffer_, flags);
    Py_DECREF(bits);  // the buffer keeps it
    if (status != 0) {
      return false;
    }
    is_bfloat16 = true;
  }
  has_buffer_ = true;
  if (buffer_.ndim > kMaxDims) {
    return raise_too_many_dims(name, buffer_.ndim);
  }
  view.data = buffer_.buf;
  view.dtype = is_bfloat16 ? ScalarType::kBF16 : scalar_type_of(buffer_);
  view.ndim = buffer_.ndim;
  for (int axis = 0; axis < buffer_.ndim; ++axis) {
    if (buffer_.strides[axis] % buffer_.itemsize != 0) {
      PyErr_Format(PyExc_ValueError, "%s has a stride of %zd bytes, no multiple of its element size; copy it", name,
                   buffer_.strides[axis]);
      return false;
    }
    view.shape[axis] = buffer_.shape[axis];
    view.strides[axis] = buffer_.strides[axis] / buffer_.itemsize;
  }
  return true;
}

bool ArrayArg::load_shape(PyObject* object, const char* name, ScalarType dtype) {
  const Py_ssize_t ndim = PyTuple_Check(object) ? PyTuple_Size(object) : -1;
  if (ndim < 0) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a tuple of ints like q", name, Py_TYPE(object));
    return false;
  }
  if (ndim > kMaxDims) {
    return raise_too_many_dims(name, ndim);
  }
  view.dtype = dtype;
  view.ndim = static_cast<int>(ndim);
  for (int axis = 0; axis < view.ndim; ++axis) {
    view.shape[axis] = PyLong_AsLongLong(PyTuple_GetItem(object, axis));
    if (view.shape[axis] == -1 && PyErr_Occurred() != nullptr) {
      return false;
    }
    if (view.shape[axis] < 0) {
      PyErr_Format(PyExc_ValueError, "%s has the negative size %lld", name, static_cast<long long>(view.shape[axis]));
      return false;
    }
  }
  set_contiguous_strides(view);
  return true;
}

bool TorchScratch::allocate(int gpu, size_t bytes) {
  auto size = static_cast<int64_t>(bytes);
  int64_t stride = 1;
  dlpack::Tensor prototype{};
  prototype.device = {dlpack::kCuda, gpu};
  prototype.ndim = 1;
  prototype.dtype = {dlpack::kUInt, 8, 1};
  prototype.shape = &size;
  prototype.strides = &stride;
  dlpack::ManagedTensor* managed = nullptr;
  if (exchange_api().allocate(&prototype, &managed, nullptr, set_python_error) != 0) {
    return false;
  }
  managed_ = managed;
  return true;
}

void* TorchScratch::data() const {
  const auto* managed = static_cast<const dlpack::ManagedTensor*>(managed_);
  return managed == nullptr ? nullptr : static_cast<char*>(managed->tensor.data) + managed->tensor.byte_offset;
}

TorchScratch::~TorchScratch() {
  auto* managed = static_cast<dlpack::ManagedTensor*>(managed_);
  if (managed != nullptr && managed->deleter != nullptr) {
    managed->deleter(managed);
  }
}

PyObject* new_array(Family family, PyObject* like, TensorView& spec) {
  return family == Family::kTorch ? new_torch_tensor(spec) : new_numpy_array(like, spec);
}

PyObject* pair_of(PyObject* first, PyObject* second) {
  PyObject* pair = PyTuple_Pack(2, first, second);
  Py_DECREF(first);
  Py_DECREF(second);
  return pair;
}

PyObject* raise(const Failure& failure) {
  PyObject* type = PyExc_RuntimeError;
  switch (failure.kind) {
    case FailureKind::kValue:
      type = PyExc_ValueError;
      break;
    case FailureKind::kNotSupported:
      type = PyExc_NotImplementedError;
      break;
    case FailureKind::kMemory:
      type = PyExc_MemoryError;
      break;
    case FailureKind::kRuntime:
      break;
  }
  PyErr_SetString(type, failure.message.c_str());
  return nullptr;
}

}  // namespace flashmoe::python
