// Why a call cannot be made, in the words of the one who made it.
#pragma once

#include <cstdint>
#include <string>

#include "flashmoe/flashmoe.h"

namespace flashmoe::python {

enum class FailureKind : uint8_t { kValue, kNotSupported, kMemory, kRuntime };

struct Failure {
  FailureKind kind = FailureKind::kRuntime;
  std::string message;
};

// Each fills the failure and returns false, for the caller to return.
bool fail(Failure& failure, FailureKind kind, std::string message);
bool fail_value(Failure& failure, std::string message);
// The library's own message, with the Python argument's name for that of its struct.
bool fail_in_library(Failure& failure, const fms_error& error);

}  // namespace flashmoe::python
