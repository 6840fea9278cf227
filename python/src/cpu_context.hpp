#pragma once

#include "failure.hpp"
#include "flashmoe/flashmoe.h"

namespace flashmoe::python {

// One per process and binary, made on first use and never changed. Null, with the failure, if it cannot be made.
[[nodiscard]] const fms_context* cpu_context(Failure& failure);

}  // namespace flashmoe::python
