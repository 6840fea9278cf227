// Arithmetic with another rounding than to nearest even. The host's own units round in every direction when told to, so
// nothing has to be computed twice; what must be prevented is that the compiler moves arithmetic across the switch.
#pragma once

#include "vgpu/exec/ops/lanes.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

// While it lives, the host rounds as told. Loads cannot move up across the first barrier nor stores down across the
// second (both clobber memory), and what an op computes lies between its loads and its stores.
class RoundingScope {
 public:
  explicit RoundingScope(Rounding rounding) {
    asm volatile("stmxcsr %0" : "=m"(before_) : : "memory");
    const std::uint32_t during = (before_ & ~0x6000u) | control_bits(rounding);
    asm volatile("ldmxcsr %0" : : "m"(during) : "memory");
  }
  ~RoundingScope() { asm volatile("ldmxcsr %0" : : "m"(before_) : "memory"); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  static std::uint32_t control_bits(Rounding rounding) {
    switch (rounding) {
      case Rounding::rm:
        return 0x2000u;
      case Rounding::rp:
        return 0x4000u;
      case Rounding::rz:
        return 0x6000u;
      default:
        return 0;
    }
  }
  std::uint32_t before_ = 0;
};

template <auto Function, Rounding R>
void run_rounded(Warp& warp, const Inst& inst) {
  const RoundingScope scope(R);
  Lanewise<Function>::run(warp, inst);
}

// The handler of d = Function(a, ...) with the rounding that a form asks for; none is to nearest.
template <auto Function>
inline Handler rounded(Rounding rounding) {
  switch (rounding) {
    case Rounding::none:
    case Rounding::rn:
      return lanewise<Function>;
    case Rounding::rz:
      return run_rounded<Function, Rounding::rz>;
    case Rounding::rm:
      return run_rounded<Function, Rounding::rm>;
    case Rounding::rp:
      return run_rounded<Function, Rounding::rp>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
