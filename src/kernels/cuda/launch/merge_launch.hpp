// How the kernel that merges two partial results is launched.
#pragma once

#include "flashmoe/flashmoe.h"
#include "kernels/cuda/attention/merge_params.hpp"
#include "plan/merge_args.hpp"

namespace flashmoe::cuda {

struct MergeLaunch {
  MergeParams params;
  unsigned ctas;  // of merge_threads
};

// Of a checked problem that is not empty, and checked arguments.
[[nodiscard]] fms_status merge_launch(const fms_merge_problem& problem, const plan::MergeArgs& args,
                                      MergeLaunch& launch, fms_error* error);

}  // namespace flashmoe::cuda
