// instances.def as a table for the host.
#pragma once

#include <span>

#include "plan/planner.hpp"

namespace flashmoe::cuda {

[[nodiscard]] std::span<const plan::CudaInstance> instances();

}  // namespace flashmoe::cuda
