#include "py_torch.hpp"

#include <dlfcn.h>

#include <cstring>

#include "dlpack_abi.hpp"

namespace flashmoe::python {

TorchBinding& torch_binding() {
  static TorchBinding binding;
  return binding;
}

bool bind_torch(PyObject* tensor_type) {
  TorchBinding& torch = torch_binding();
  PyObject* capsule = PyObject_GetAttrString(tensor_type, dlpack::kExchangeApiAttribute);
  if (capsule == nullptr) {
    return false;
  }
  const auto* header =
      static_cast<const dlpack::ExchangeApiHeader*>(PyCapsule_GetPointer(capsule, dlpack::kExchangeApiCapsule));
  Py_DECREF(capsule);  // the table lives as long as the process
  while (header != nullptr && header->version.major > dlpack::kMajorVersion) {
    header = header->previous_api;
  }
  const auto* api = reinterpret_cast<const dlpack::ExchangeApi*>(header);
  if (api == nullptr || api->header.version.major != dlpack::kMajorVersion || api->borrow_from_object == nullptr) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_SetString(PyExc_ImportError, "this torch has no DLPack exchange table of version 1");
    }
    return false;
  }
  if (void* libtorch = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) {
    void* symbol = dlsym(libtorch, "torch_get_num_threads");
    std::memcpy(&torch.get_num_threads, &symbol, sizeof symbol);
    dlclose(libtorch);
  }
  torch.exchange_api = api;
  torch.tensor_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(tensor_type));
  return true;
}

bool torch_is_plain() {
  const TorchBinding& torch = torch_binding();
  for (int i = 0; i < torch.guard_count; ++i) {
    PyObject* answer = PyObject_CallNoArgs(torch.guards[i]);
    const int truth = answer == nullptr ? -1 : answer == Py_None ? 0 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    if (truth != 0) {
      PyErr_Clear();
      return false;
    }
  }
  static PyObject* const level_name = PyUnicode_InternFromString("_current_level");
  PyObject* level = PyObject_GetAttr(torch.forward_ad, level_name);
  const bool no_dual_numbers = level != nullptr && PyLong_AsLong(level) == -1;
  Py_XDECREF(level);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return false;
  }
  return no_dual_numbers;
}

bool torch_grad_enabled() {
  PyObject* answer = PyObject_CallNoArgs(torch_binding().is_grad_enabled);
  const bool enabled = answer != Py_False;
  Py_XDECREF(answer);
  PyErr_Clear();
  return enabled;
}

bool torch_requires_grad(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  PyObject* answer = PyObject_GetAttr(tensor, name);
  const bool required = answer != Py_False;
  Py_XDECREF(answer);
  PyErr_Clear();
  return required;
}

bool torch_is_negated(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* answer = PyObject_CallMethodObjArgs(tensor, name, nullptr);
  const bool negated = answer != Py_False;
  Py_XDECREF(answer);
  PyErr_Clear();
  return negated;
}

int32_t torch_threads() {
  uint32_t threads = 0;
  const auto ask = torch_binding().get_num_threads;
  return ask != nullptr && ask(&threads) == 0 ? static_cast<int32_t>(threads) : 0;
}

bool torch_current_stream(int gpu, void*& stream) {
  const auto* api = static_cast<const dlpack::ExchangeApi*>(torch_binding().exchange_api);
  if (api != nullptr && api->current_stream != nullptr && api->current_stream(dlpack::kCuda, gpu, &stream) == 0) {
    return true;
  }
  if (PyErr_Occurred() == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this torch cannot tell its current CUDA stream");
  }
  return false;
}

void torch_mark_written(PyObject* tensor) {
  PyObject* none = PyObject_CallFunctionObjArgs(torch_binding().increment_version, tensor, nullptr);
  Py_XDECREF(none);
  PyErr_Clear();  // inference tensors have no version, and need none
}

bool is_torch_tensor(PyObject* object) {
  PyTypeObject* type = torch_binding().tensor_type;
  if (type == nullptr || Py_TYPE(object) == type) {
    return type != nullptr;
  }
  const int answer = PyObject_IsInstance(object, reinterpret_cast<PyObject*>(type));
  PyErr_Clear();
  return answer == 1;
}

namespace {

// Whether an attribute is exactly this. Keeps the exception that is set.
bool attribute_is(PyObject* object, const char* name, PyObject* expected) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* attribute = PyObject_GetAttrString(object, name);
  const bool is_expected = attribute == expected;
  Py_XDECREF(attribute);
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  return is_expected;
}

}  // namespace

bool is_nested(PyObject* tensor) {
  return attribute_is(tensor, "is_nested", Py_True);
}

bool is_elsewhere(PyObject* tensor) {
  return attribute_is(tensor, "is_cpu", Py_False);
}

PyObject* register_torch(PyObject* /*module*/, PyObject* args) {
  PyObject *tensor_type, *attention_fallback, *merge_fallback, *is_grad_enabled, *increment_version, *forward_ad,
      *guards;
  if (PyArg_ParseTuple(args, "OOOOOOO", &tensor_type, &attention_fallback, &merge_fallback, &is_grad_enabled,
                       &increment_version, &forward_ad, &guards) == 0) {
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_Check(guards) != 0 ? PyTuple_Size(guards) : -1;
  if (count < 0 || count > TorchBinding::kMaxGuards) {
    PyErr_Format(PyExc_ValueError, "guards must be a tuple of at most %d callables", TorchBinding::kMaxGuards);
    return nullptr;
  }
  // References are kept for the life of the process, as the module itself is; a second registration (tests) leaks the
  // first one's, which a call in another thread may still be using.
  TorchBinding& torch = torch_binding();
  torch.attention_fallback = Py_NewRef(attention_fallback);
  torch.merge_fallback = Py_NewRef(merge_fallback);
  torch.is_grad_enabled = Py_NewRef(is_grad_enabled);
  torch.increment_version = Py_NewRef(increment_version);
  torch.forward_ad = Py_NewRef(forward_ad);
  torch.guard_count = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    torch.guards[torch.guard_count++] = Py_NewRef(PyTuple_GetItem(guards, i));
  }
  return bind_torch(tensor_type) ? Py_NewRef(Py_None) : nullptr;
}

}  // namespace flashmoe::python
