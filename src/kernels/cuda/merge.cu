// The kernel of fms_merge_states: one for all element types and strides.
#include "kernels/cuda/attention/merge.cuh"

namespace flashmoe::cuda {

extern "C" __global__ __launch_bounds__(merge_threads) void merge_states(const __grid_constant__ MergeParams params) {
  merge(params);
}

}  // namespace flashmoe::cuda
