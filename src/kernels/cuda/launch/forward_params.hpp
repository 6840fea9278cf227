// A plan and its pointers as a kernel takes them.
#pragma once

#include <cstddef>

#include "flashmoe/flashmoe.h"
#include "kernels/cuda/attention/params.hpp"
#include "kernels/cuda/launch/instances.hpp"

namespace flashmoe::cuda {

// `l2_resident_bytes`: PlannerFigures'.
[[nodiscard]] ExtendedParams forward_params(const fms_attention_plan& plan, const InstanceAxes& axes,
                                            const fms_attention_args& args, std::byte* workspace,
                                            double l2_resident_bytes);

// CTAs begin along x, then along y, then along z.
struct LaunchGrid {
  unsigned int x, y, z;
};
// As the kernel takes its place in it (attention/work_list.cuh).
[[nodiscard]] LaunchGrid launch_grid(const ForwardParams& params);

[[nodiscard]] Division division_by(int64_t divisor);

[[nodiscard]] inline RowStrides strides_of(const fms_strides& strides) {
  return {strides.batch, strides.head, strides.seq};
}

}  // namespace flashmoe::cuda
