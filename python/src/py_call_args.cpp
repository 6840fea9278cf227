#include "py_call_args.hpp"

#include "py_arrays.hpp"

namespace flashmoe::python {

bool read_flag(PyObject* slot, bool& value) {
  if (slot == nullptr) {
    return true;
  }
  const int truth = PyObject_IsTrue(slot);
  value = truth == 1;
  return truth >= 0;
}

bool read_int(PyObject* slot, const char* name, int64_t& value) {
  if (slot == nullptr) {
    return true;
  }
  PyObject* index = PyNumber_Index(slot);
  if (index == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected an int", name, slot);
    return false;
  }
  value = PyLong_AsLongLong(index);
  Py_DECREF(index);
  return value != -1 || PyErr_Occurred() == nullptr;
}

bool read_float(PyObject* slot, const char* name, double& value) {
  if (slot == nullptr) {
    return true;
  }
  value = PyFloat_AsDouble(slot);
  if (value == -1.0 && PyErr_Occurred() != nullptr) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a float", name, slot);
    return false;
  }
  return true;
}

bool read_window(PyObject* slot, const char* name, int64_t& left, int64_t& right) {
  if (slot == nullptr) {
    return true;
  }
  if (PySequence_Check(slot) == 0 || PySequence_Size(slot) != 2) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected a pair of ints (left, right), -1 for no limit", name, slot);
    return false;
  }
  PyObject* first = PySequence_GetItem(slot, 0);
  PyObject* second = PySequence_GetItem(slot, 1);
  const bool ok = first != nullptr && second != nullptr && read_int(first, name, left) && read_int(second, name, right);
  Py_XDECREF(first);
  Py_XDECREF(second);
  return ok;
}

bool read_layout(PyObject* slot, const char* name, Layout& layout) {
  if (slot == nullptr) {
    return true;
  }
  const char* text = PyUnicode_Check(slot) ? PyUnicode_AsUTF8AndSize(slot, nullptr) : nullptr;
  if (text == nullptr) {
    PyErr_Format(PyExc_TypeError, "%s is %R; expected 'bhsd' or 'bshd'", name, slot);
    return false;
  }
  Failure failure;
  if (!parse_layout(text, layout, failure)) {
    raise(failure);
    return false;
  }
  return true;
}

bool read_dtype(PyObject* slot, const char* name, ScalarType& dtype) {
  if (slot == nullptr) {
    return true;
  }
  if (PyUnicode_Check(slot)) {
    for (const ScalarType candidate : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32}) {
      if (PyUnicode_CompareWithASCIIString(slot, scalar_type_name(candidate)) == 0) {
        dtype = candidate;
        return true;
      }
    }
  }
  PyErr_Format(PyExc_ValueError, "%s is %R; expected 'float16', 'bfloat16' or 'float32'", name, slot);
  return false;
}

bool read_place(PyObject* slot, const char* name, Place& place) {
  if (slot == nullptr) {
    return true;
  }
  const char* text = PyUnicode_Check(slot) ? PyUnicode_AsUTF8AndSize(slot, nullptr) : nullptr;
  if (text != nullptr && parse_place(text, place)) {
    return true;
  }
  PyErr_Clear();
  PyErr_Format(PyExc_ValueError, "%s is %R; expected 'cpu', 'cuda' or 'cuda:<n>'", name, slot);
  return false;
}

PyObject* forward_call(PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (callable == nullptr) {
    return nullptr;
  }
  PyObject* positional = PyTuple_New(nargs);
  if (positional == nullptr) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < nargs; ++i) {
    PyTuple_SetItem(positional, i, Py_NewRef(args[i]));
  }
  PyObject* keywords = nullptr;
  if (kwnames != nullptr) {
    keywords = PyDict_New();
    for (Py_ssize_t i = 0; keywords != nullptr && i < PyTuple_Size(kwnames); ++i) {
      if (PyDict_SetItem(keywords, PyTuple_GetItem(kwnames, i), args[nargs + i]) != 0) {
        Py_CLEAR(keywords);
      }
    }
    if (keywords == nullptr) {
      Py_DECREF(positional);
      return nullptr;
    }
  }
  PyObject* result = PyObject_Call(callable, positional, keywords);
  Py_XDECREF(keywords);
  Py_DECREF(positional);
  return result;
}

}  // namespace flashmoe::python
