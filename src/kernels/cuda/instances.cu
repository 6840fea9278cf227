// Compiled once per line of instances.def, with FMS_INSTANCE set to its name: each image holds one kernel.
#include "kernels/cuda/attention/forward.cuh"

namespace flashmoe::cuda {

#define FMS_FORWARD(name, element, dim, keys, warps, paged, modified) \
  using Shape_##name = ForwardShape<element, dim, keys, warps, paged, modified>;
#include "kernels/cuda/instances.def"
#undef FMS_FORWARD

#define FMS_JOIN_(a, b) a##b
#define FMS_JOIN(a, b) FMS_JOIN_(a, b)
using Shape = FMS_JOIN(Shape_, FMS_INSTANCE);

extern "C" __global__ __launch_bounds__(Shape::threads, 2) void FMS_INSTANCE(const __grid_constant__ ForwardParams params) {
  Forward<Shape>(params).run();
}

}  // namespace flashmoe::cuda
