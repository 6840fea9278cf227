// The few functions of the softmax, and reductions over the four lanes that share a row of a fragment.
#pragma once

#include "kernels/cuda/atoms/types.cuh"

namespace flashmoe::cuda {

inline constexpr float log2_of_e = 1.44269504088896341f;
inline constexpr float log_of_2 = 0.693147180559945309f;

FMS_DEVICE float not_a_number() {
  return __int_as_float(0x7fffffff);
}

FMS_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
FMS_DEVICE float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

FMS_DEVICE float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Near 0 the error is that of 1: small beside the scores it is used on.
FMS_DEVICE float hyperbolic_tangent(float x) {
  return 1.0f - 2.0f * reciprocal(1.0f + exp2_fast(x * (2.0f * log2_of_e)));
}

FMS_DEVICE float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}
FMS_DEVICE float quad_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}

}  // namespace flashmoe::cuda
