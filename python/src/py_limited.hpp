#pragma once

#ifndef Py_LIMITED_API
#error "compile with Py_LIMITED_API: one binary serves every CPython from 3.11 on"
#endif
#include <Python.h>
