// What device code needs before any header: it compiles under nvcc and NVRTC alike, without the standard library.
#pragma once

#define FMS_DEVICE __device__ __forceinline__

namespace flashmoe::cuda {

using uint32 = unsigned int;
using int64 = long long;

// Element types are names: values live in registers as pairs.
struct Half {
  static constexpr uint32 exponent_mask = 0x7c00;
};
struct BFloat16 {
  static constexpr uint32 exponent_mask = 0x7f80;
};

// threadIdx.x, and the compiler does not know that it has seen it before.
FMS_DEVICE uint32 thread_index_anew() {
  uint32 index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

inline constexpr int warp_lanes = 32;
inline constexpr uint32 all_lanes = 0xffffffffu;

}  // namespace flashmoe::cuda
