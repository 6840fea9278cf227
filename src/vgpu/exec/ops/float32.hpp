// f32 add, sub, mul and fma (PTX ISA 9.7.3) in whatever rounding the host is set to: nearest in float32_variant.cpp,
// the others in directed.cpp.
#pragma once

#include "vgpu/exec/ops/floats.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <bool Ftz, bool Sat>
float add(float a, float b) {
  return finish<Ftz, Sat>(flush<Ftz>(a) + flush<Ftz>(b));
}
template <bool Ftz, bool Sat>
float sub(float a, float b) {
  return finish<Ftz, Sat>(flush<Ftz>(a) - flush<Ftz>(b));
}
template <bool Ftz, bool Sat>
float mul(float a, float b) {
  return finish<Ftz, Sat>(flush<Ftz>(a) * flush<Ftz>(b));
}
template <bool Ftz, bool Sat>
float fma(float a, float b, float c) {
  return finish<Ftz, Sat>(__builtin_fmaf(flush<Ftz>(a), flush<Ftz>(b), flush<Ftz>(c)));
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
