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

inline constexpr int warp_lanes = 32;
inline constexpr uint32 all_lanes = 0xffffffffu;

}  // namespace flashmoe::cuda
