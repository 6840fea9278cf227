#include "py_arrays.hpp"

#include <cstring>

#include "dlpack_abi.hpp"
#include "py_dlpack.hpp"
#include "py_torch.hpp"
#include "tensor_checks.hpp"

namespace flashmoe::python {
namespace {

const dlpack::ExchangeApi& exchange_api() {
  return *static_cast<const dlpack::ExchangeApi*>(torch_binding().exchange_api);
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
    case 'b':
      return ScalarType::kI8;
    case 'B':
      return ScalarType::kU8;
    case 'h':
      return ScalarType::kI16;
    case 'H':
      return ScalarType::kU16;
    case 'I':
    case 'L':
    case 'Q':
      return buffer.itemsize == 4 ? ScalarType::kU32 : ScalarType::kU64;
    default:
      return ScalarType::kOther;
  }
}

// Replaces torch's own exception, which does not know the argument's name.
bool raise_not_borrowed(PyObject* tensor, const char* name) {
  PyErr_Clear();
  if (is_nested(tensor)) {
    PyErr_Format(PyExc_ValueError, "%s is a nested tensor; expected a dense one", name);
    return false;
  }
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

bool is_numpy_array(PyObject* object) {
  static PyObject* array_type = nullptr;  // never released
  if (array_type == nullptr) {
    PyObject* module_name = PyUnicode_InternFromString("numpy");
    PyObject* numpy = module_name == nullptr ? nullptr : PyImport_GetModule(module_name);  // null: nobody has an array
    array_type = numpy == nullptr ? nullptr : PyObject_GetAttrString(numpy, "ndarray");
    Py_XDECREF(numpy);
    Py_XDECREF(module_name);
  }
  const int answer = array_type == nullptr ? 0 : PyObject_IsInstance(object, array_type);
  PyErr_Clear();
  return answer == 1;
}

Place described_place(const char* device) {
  Place place;
  if (!parse_place(device, place)) {
    place.device = std::strcmp(device, "meta") == 0 ? DeviceType::kMeta : DeviceType::kOther;
  }
  return place;
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

// For kDlpack bfloat16 is kept as its bits; for kNumpy only the input's dtype object can name it.
PyObject* dtype_of_result(Family family, PyObject* like, ScalarType type) {
  if (type != ScalarType::kBF16) {
    return PyUnicode_FromString(scalar_type_name(type));
  }
  return family == Family::kDlpack ? PyUnicode_FromString("uint16") : PyObject_GetAttrString(like, "dtype");
}

PyObject* new_numpy_array(Family family, PyObject* like, TensorView& spec) {
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
  PyObject* dtype = dtype_of_result(family, like, spec.dtype);
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

// By the name of the array's dtype. Never leaves an exception set.
ScalarType named_dtype(PyObject* object) {
  PyObject* dtype = PyObject_GetAttrString(object, "dtype");
  PyObject* dtype_name = dtype == nullptr ? nullptr : PyObject_GetAttrString(dtype, "name");
  const char* text = dtype_name != nullptr && PyUnicode_Check(dtype_name) != 0
                         ? PyUnicode_AsUTF8AndSize(dtype_name, nullptr)
                         : nullptr;
  const ScalarType type = text == nullptr ? ScalarType::kOther : scalar_type_named(text);
  Py_XDECREF(dtype_name);
  Py_XDECREF(dtype);
  PyErr_Clear();
  return type;
}

}  // namespace

ArrayArg::~ArrayArg() {
  if (has_buffer_) {
    PyBuffer_Release(&buffer_);
  }
  Py_XDECREF(capsule_);
}

bool ArrayArg::load(PyObject* object, const char* name, Family family, bool writable, ScalarType shape_dtype) {
  switch (family) {
    case Family::kTorch:
      return load_torch(object, name);
    case Family::kNumpy:
    case Family::kDlpack:
      return load_host(object, name, writable);
    case Family::kShape:
      return load_shape(object, name, shape_dtype);
    case Family::kDescription:
      return load_description(object, name);
  }
  return false;
}

bool raise_too_many_dims(const char* name, int64_t ndim) {
  PyErr_Format(PyExc_ValueError, "%s has %lld dimensions; at most %d are allowed", name, static_cast<long long>(ndim),
               kMaxDims);
  return false;
}

bool check_is_tensor(PyObject* object, const char* name) {
  if (is_torch_tensor(object)) {
    return true;
  }
  if (is_numpy_array(object)) {
    PyErr_Format(PyExc_TypeError,
                 "%s is a NumPy array among torch tensors; all arrays of a call come from one library: "
                 "torch.from_numpy(%s) shares its memory",
                 name, name);
  } else {
    PyErr_Format(PyExc_TypeError, "%s is %R among torch tensors; expected a torch.Tensor", name, Py_TYPE(object));
  }
  return false;
}

bool ArrayArg::load_torch(PyObject* object, const char* name) {
  if (!check_is_tensor(object, name)) {
    return false;
  }
  dlpack::Tensor tensor;
  if (exchange_api().borrow_from_object(object, &tensor) != 0) {
    return raise_not_borrowed(object, name);
  }
  view.place.device = tensor.device.type == dlpack::kCpu    ? DeviceType::kCpu
                      : tensor.device.type == dlpack::kCuda ? DeviceType::kCuda
                                                            : DeviceType::kOther;
  view.place.index = view.place.device == DeviceType::kCuda ? tensor.device.index : 0;
  return view_of(tensor, name, view);
}

bool ArrayArg::load_host(PyObject* object, const char* name, bool writable) {
  if (is_torch_tensor(object)) {
    PyErr_Format(PyExc_TypeError,
                 "%s is a torch.Tensor among arrays that are not; all arrays of a call come from one library: "
                 "%s.detach().numpy(), or torch.from_numpy of the others, shares the memory",
                 name, name);
    return false;
  }
  if (!is_numpy_array(object) && is_dlpack_producer(object)) {
    capsule_ = borrow_from_producer(object, name, writable, view);
    return capsule_ != nullptr;
  }
  return load_buffer(object, name, writable);
}

bool ArrayArg::load_buffer(PyObject* object, const char* name, bool writable) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  bool is_bfloat16 = false;
  if (PyObject_CheckBuffer(object) == 0) {
    PyErr_Format(PyExc_TypeError,
                 "%s is %R; expected a torch.Tensor, a NumPy array or another array that has __dlpack__", name,
                 Py_TYPE(object));
    return false;
  }
  if (PyObject_GetBuffer(object, &buffer_, flags) != 0) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    const ScalarType named = named_dtype(object);  // ml_dtypes' types do not speak the buffer protocol
    if (named != ScalarType::kBF16 && !is_float8(named)) {
      PyErr_Restore(type, value, traceback);
      return false;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    view.dtype = named;
    if (named != ScalarType::kBF16) {
      return true;  // its type is all that the checks will look at
    }
    PyObject* bits = PyObject_CallMethod(object, "view", "s", "uint16");
    const int status = bits == nullptr ? -1 : PyObject_GetBuffer(bits, &buffer_, flags);
    Py_XDECREF(bits);  // the buffer keeps it
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

bool ArrayArg::load_description(PyObject* object, const char* name) {
  PyObject *shape = nullptr, *strides = nullptr;
  const char *dtype = nullptr, *device = nullptr;
  if (PyTuple_Check(object) == 0) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a description like q", name, Py_TYPE(object));
    return false;
  }
  if (PyArg_ParseTuple(object, "O!O!ss", &PyTuple_Type, &shape, &PyTuple_Type, &strides, &dtype, &device) == 0 ||
      !load_shape(shape, name, scalar_type_named(dtype))) {
    return false;
  }
  for (int axis = 0; axis < view.ndim && axis < PyTuple_Size(strides); ++axis) {
    view.strides[axis] = PyLong_AsLongLong(PyTuple_GetItem(strides, axis));
  }
  view.place = described_place(device);
  return PyErr_Occurred() == nullptr;
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

Family family_of(PyObject* array) {
  return is_torch_tensor(array)                                ? Family::kTorch
         : !is_numpy_array(array) && is_dlpack_producer(array) ? Family::kDlpack
                                                               : Family::kNumpy;
}

PyObject* new_array(Family family, PyObject* like, TensorView& spec) {
  return family == Family::kTorch ? new_torch_tensor(spec) : new_numpy_array(family, like, spec);
}

PyObject* given_back(Family family, PyObject* like, PyObject* array, ScalarType dtype) {
  if (family != Family::kDlpack || array == nullptr) {
    return array;
  }
  PyObject* give_back = dlpack_helper("give_back");
  PyObject* dtype_name = give_back == nullptr ? nullptr : PyUnicode_FromString(scalar_type_name(dtype));
  PyObject* result =
      dtype_name == nullptr ? nullptr : PyObject_CallFunctionObjArgs(give_back, array, dtype_name, like, nullptr);
  Py_XDECREF(dtype_name);
  Py_DECREF(array);
  return result;
}

PyObject* pair_of(PyObject* first, PyObject* second) {
  PyObject* pair = first == nullptr || second == nullptr ? nullptr : PyTuple_Pack(2, first, second);
  Py_XDECREF(first);
  Py_XDECREF(second);
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
