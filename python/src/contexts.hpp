#pragma once

#include "failure.hpp"
#include "flashmoe/flashmoe.h"
#include "tensor_view.hpp"

namespace flashmoe::python {

// One per device, process and binary, made on first use, never changed and never destroyed. Null, with the failure, if
// it cannot be made. A GPU must be current (current_gpu.hpp).
[[nodiscard]] const fms_context* context_at(Place where, Failure& failure);

}  // namespace flashmoe::python
