// The library's kernels as a device of a GPU of the table would find them, by their cubins (plans_test.cpp).
#pragma once

#include <memory>

#include "devices/device.hpp"
#include "plan/planner.hpp"

namespace flashmoe::testing {

// fp16, without pages and modified scores.
[[nodiscard]] std::unique_ptr<plan::CudaKernels> table_kernels(const Gpu& gpu);

}  // namespace flashmoe::testing
