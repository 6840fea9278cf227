// The module's functions that take arrays: METH_FASTCALL | METH_KEYWORDS.
#pragma once

#include "py_limited.hpp"

namespace flashmoe::python {

using FastFunction = PyObject*(PyObject* module, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

FastFunction attention;
FastFunction plan_attention;
FastFunction check_attention;
FastFunction flash_attention_forward;
FastFunction merge_states;
FastFunction check_merge;

// Interns the keywords. False with a Python exception set.
[[nodiscard]] bool init_attention_functions();
[[nodiscard]] bool init_merge_function();

}  // namespace flashmoe::python
