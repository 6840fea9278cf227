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
// exp2(x - level), where x is a product too. Rounded by name: if the assembler made one instruction of product and
// difference, what it left of an x that is the level would not be 0, and of the lowest one not even finite.
FMS_DEVICE float exp2_beside(float x, float level) {
  return exp2_fast(__fsub_rn(x, level));
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

// Of the lane whose number differs by these bits; all lanes come here. The intrinsic moves a float to an integer
// register and back.
template <int Bits>
FMS_DEVICE float of_lane_beside(float x) {
  float its;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(its) : "f"(x), "n"(Bits));
  return its;
}
FMS_DEVICE float quad_max(float x) {
  x = fmaxf(x, of_lane_beside<1>(x));
  return fmaxf(x, of_lane_beside<2>(x));
}
FMS_DEVICE float quad_sum(float x) {
  x += of_lane_beside<1>(x);
  return x + of_lane_beside<2>(x);
}

}  // namespace flashmoe::cuda
