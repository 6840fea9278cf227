// Arguments of a METH_FASTCALL | METH_KEYWORDS function, matched by hand: the generic parsers of CPython cost more than
// attention over one key does.
#pragma once

#include "py_limited.hpp"

#include <array>

#include "tensor_checks.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

// What scaled_dot_product_attention calls otherwise; empty for any other word.
[[nodiscard]] inline const char* ours_instead_of(PyObject* keyword) {
  struct Other {
    const char* theirs;
    const char* ours;
  };
  for (const Other& other :
       {Other{"is_causal", "; it is called causal here"},
        Other{"attn_mask", "; an additive mask is bias here, padding of keys kv_lengths, both faster than a full mask"},
        Other{"dropout_p", "; there is no dropout here: leave it out for inference"},
        Other{"enable_gqa", "; leave it out: k and v may have fewer heads than q"}}) {
    if (PyUnicode_CompareWithASCIIString(keyword, other.theirs) == 0) return other.ours;
  }
  return "";
}

// Names of a function's parameters, positional ones first.
template <int kCount>
class Signature {
 public:
  template <typename... Names>
  constexpr Signature(const char* function, int positional, int required, Names... names)
      : function_(function), positional_(positional), required_(required), names_{names...} {
    static_assert(sizeof...(Names) == kCount);
  }

  // Interned once, so that a keyword usually matches by address.
  [[nodiscard]] bool intern() {
    for (int i = 0; i < kCount; ++i) {
      interned_[i] = PyUnicode_InternFromString(names_[i]);
      if (interned_[i] == nullptr) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] const char* name(int i) const { return names_[i]; }

  // slots: borrowed references; null for what was not given and for None. False with a Python exception set.
  [[nodiscard]] bool match(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                           std::array<PyObject*, kCount>& slots) const {
    if (nargs > positional_) {
      PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", function_, positional_,
                   nargs);
      return false;
    }
    slots.fill(nullptr);
    for (Py_ssize_t i = 0; i < nargs; ++i) {
      slots[i] = args[i];
    }
    const Py_ssize_t keywords = kwnames == nullptr ? 0 : PyTuple_Size(kwnames);
    for (Py_ssize_t i = 0; i < keywords; ++i) {
      PyObject* keyword = PyTuple_GetItem(kwnames, i);
      const int slot = find(keyword);
      if (slot < 0 || slots[slot] != nullptr) {
        PyErr_Format(PyExc_TypeError,
                     slot < 0 ? "%s() got an unexpected keyword argument '%U'%s"
                              : "%s() got multiple values for argument '%U'%s",
                     function_, keyword, slot < 0 ? ours_instead_of(keyword) : "");
        return false;
      }
      slots[slot] = args[nargs + i];
    }
    for (int i = 0; i < kCount; ++i) {
      if (slots[i] == nullptr && i < required_) {
        PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function_, names_[i]);
        return false;
      }
      if (slots[i] == Py_None) {
        slots[i] = nullptr;
        if (i < required_) {
          PyErr_Format(PyExc_TypeError, "%s(): %s must not be None", function_, names_[i]);
          return false;
        }
      }
    }
    return true;
  }

 private:
  [[nodiscard]] int find(PyObject* keyword) const {
    for (int i = 0; i < kCount; ++i) {
      if (interned_[i] == keyword) {
        return i;
      }
    }
    for (int i = 0; i < kCount; ++i) {
      if (PyUnicode_CompareWithASCIIString(keyword, names_[i]) == 0) {
        return i;
      }
    }
    return -1;
  }

  const char* function_;
  int positional_;
  int required_;
  std::array<const char*, kCount> names_;
  std::array<PyObject*, kCount> interned_{};
};

// Each leaves the default in place when the slot is null; false with a Python exception that names the argument.
[[nodiscard]] bool read_flag(PyObject* slot, bool& value);
[[nodiscard]] bool read_int(PyObject* slot, const char* name, int64_t& value);
[[nodiscard]] bool read_float(PyObject* slot, const char* name, double& value);
[[nodiscard]] bool read_window(PyObject* slot, const char* name, int64_t& left, int64_t& right);
[[nodiscard]] bool read_layout(PyObject* slot, const char* name, Layout& layout);
[[nodiscard]] bool read_dtype(PyObject* slot, const char* name, ScalarType& dtype);
// "cpu", "cuda" or "cuda:<n>".
[[nodiscard]] bool read_place(PyObject* slot, const char* name, Place& place);

// callable(*args, **keywords) with the arguments of a fast call. Null with a Python exception set, which is already so
// where there is no callable.
[[nodiscard]] PyObject* forward_call(PyObject* callable, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

}  // namespace flashmoe::python
