// The six tensors of fms_merge_states.
#pragma once

namespace flashmoe::plan {

struct MergeArgs {
  const void *o_a, *o_b;
  const float *lse_a, *lse_b;
  void* o;
  float* lse;
};

}  // namespace flashmoe::plan
