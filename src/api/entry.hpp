// How the library is entered: in the default floating-point environment, and with a status instead of an exception,
// which must not cross a C boundary.
#pragma once

#include <exception>
#include <new>

#include "support/float_environment.hpp"
#include "support/status.hpp"

namespace flashmoe::api {

// What a function of the C ABI answers: body()'s status, or that of what it threw.
template <class Body>
fms_status enter(fms_error* error, Body&& body) noexcept {
  const DefaultFloatEnvironment environment;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(error, FMS_OUT_OF_MEMORY, "", "the host has no memory left for what this call needs");
  } catch (const std::exception& thrown) {
    return fail(error, FMS_INTERNAL_ERROR, "", "this is a defect of the library: %s", thrown.what());
  } catch (...) {
    return fail(error, FMS_INTERNAL_ERROR, "", "this is a defect of the library: an exception without a message");
  }
}

}  // namespace flashmoe::api
