// f32 arithmetic with .rz, .rm and .rp, and the exactly rounded div, rcp and sqrt (PTX ISA 9.7.3).
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/float32.hpp"
#include "vgpu/exec/ops/rounding.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

template <bool Ftz>
float div(float a, float b) {
  return finish<Ftz, false>(flush<Ftz>(a) / flush<Ftz>(b));
}
template <bool Ftz>
float rcp(float a) {
  return finish<Ftz, false>(1.0f / flush<Ftz>(a));
}
template <bool Ftz>
float sqrt(float a) {
  return finish<Ftz, false>(__builtin_sqrtf(flush<Ftz>(a)));
}

template <bool Ftz, bool Sat>
Handler arithmetic(const Key& key) {
  switch (key.op) {
    case Op::add:
      return rounded<add<Ftz, Sat>>(key.rounding);
    case Op::sub:
      return rounded<sub<Ftz, Sat>>(key.rounding);
    case Op::mul:
      return rounded<mul<Ftz, Sat>>(key.rounding);
    case Op::mad:
    case Op::fma:
      return rounded<fma<Ftz, Sat>>(key.rounding);
    default:
      return nullptr;
  }
}

template <bool Ftz>
Handler exact(const Key& key) {
  switch (key.op) {
    case Op::div:
      return rounded<div<Ftz>>(key.rounding);
    case Op::rcp:
      return rounded<rcp<Ftz>>(key.rounding);
    case Op::sqrt:
      return rounded<sqrt<Ftz>>(key.rounding);
    default:
      return key.has(Modifier::sat) ? arithmetic<Ftz, true>(key) : arithmetic<Ftz, false>(key);
  }
}

}  // namespace

Handler find_directed(const Key& key) {
  if (key.type() != Type::f32 || key.type_count != 1) return nullptr;
  if (key.has(Modifier::approx) || key.has(Modifier::full)) return nullptr;
  const bool quotient_or_root = key.op == Op::div || key.op == Op::rcp || key.op == Op::sqrt;
  const bool nearest = key.rounding == Rounding::none || key.rounding == Rounding::rn;
  if (nearest && !quotient_or_root) return nullptr;  // the variants have it
  return key.has(Modifier::ftz) ? exact<true>(key) : exact<false>(key);
}

}  // namespace flashmoe::vgpu::exec::ops::common
