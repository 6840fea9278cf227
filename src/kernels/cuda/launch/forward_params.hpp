// A plan and its pointers as a kernel takes them.
#pragma once

#include <cstddef>

#include "flashmoe/flashmoe.h"
#include "kernels/cuda/attention/params.hpp"
#include "plan/planner.hpp"

namespace flashmoe::cuda {

[[nodiscard]] ForwardParams forward_params(const fms_attention_plan& plan, const plan::CudaInstance& instance,
                                           const fms_attention_args& args, std::byte* workspace);

// key / divisor == (key * magic) >> (32 + shift) for 0 <= key < 2^31.
struct Division {
  unsigned int magic, shift;
};
[[nodiscard]] Division division_by(unsigned int divisor);

}  // namespace flashmoe::cuda
