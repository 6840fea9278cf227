// One kernel, chosen by macros: nvcc compiles it for each line of instances.def, NVRTC for what is not in the list.
//   FMS_NAME, FMS_ELEMENT (Half, BFloat16), FMS_DIM, FMS_TILE_CLASS, FMS_PAGED and FMS_MODIFIED (0, 1)
//   FMS_VALUE_DIM if values have a size of their own
#include "kernels/cuda/attention/forward.cuh"

#ifndef FMS_VALUE_DIM
#define FMS_VALUE_DIM 0
#endif

namespace flashmoe::cuda {

using Shape =
    ForwardShape<FMS_ELEMENT, FMS_DIM, FMS_VALUE_DIM, TileClass::FMS_TILE_CLASS, FMS_PAGED != 0, FMS_MODIFIED != 0>;

extern "C" __global__ __launch_bounds__(Shape::threads, Shape::ctas_per_sm) void FMS_NAME(
    const __grid_constant__ Shape::Params params) {
  forward<Shape>(params);
}

}  // namespace flashmoe::cuda
