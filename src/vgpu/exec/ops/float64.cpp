// f64 arithmetic (PTX ISA 9.7.3): never flushed, in every rounding.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/floats.hpp"
#include "vgpu/exec/ops/rounding.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

constexpr std::uint64_t sign_f64 = 0x8000000000000000u;

double add(double a, double b) {
  return canonical(a + b);
}
double sub(double a, double b) {
  return canonical(a - b);
}
double mul(double a, double b) {
  return canonical(a * b);
}
double fma(double a, double b, double c) {
  return canonical(__builtin_fma(a, b, c));
}
double div(double a, double b) {
  return canonical(a / b);
}
double rcp(double a) {
  return canonical(1.0 / a);
}
double sqrt(double a) {
  return canonical(__builtin_sqrt(a));
}

// The approximate ones work on the upper 32 bits only: the lower half of source and result is zero, subnormals are
// flushed (9.7.3.14, 9.7.3.17).
double upper_half(double x) {
  const std::uint64_t bits = bits_of(x) & 0xffffffff00000000u;
  return double_of((bits & 0x7ff0000000000000u) == 0 ? bits & sign_f64 : bits);
}
double rcp_approx(double a) {
  return upper_half(canonical(1.0 / upper_half(a)));
}
double rsqrt_approx_ftz(double a) {
  return upper_half(canonical(1.0 / __builtin_sqrt(upper_half(a))));
}
double rsqrt_approx(double a) {
  return canonical(1.0 / __builtin_sqrt(a));
}

// A NaN loses against a number; -0 is below +0.
template <bool Max>
double extreme(double a, double b) {
  if (a != a) return canonical(b);
  if (b != b) return a;
  if (a == b) return double_of(Max ? bits_of(a) & bits_of(b) : bits_of(a) | bits_of(b));
  return (Max ? a > b : a < b) ? a : b;
}
double absolute(double a) {
  return double_of(bits_of(a) & ~sign_f64);
}
double negate(double a) {
  return double_of(bits_of(a) ^ sign_f64);
}

Handler find_approximate(const Key& key) {
  if (key.op == Op::rcp) return lanewise<rcp_approx>;
  if (key.op != Op::rsqrt) return nullptr;
  return key.has(Modifier::ftz) ? lanewise<rsqrt_approx_ftz> : lanewise<rsqrt_approx>;
}

}  // namespace

Handler find_float64(const Key& key) {
  if (key.type() != Type::f64 || key.type_count != 1) return nullptr;
  if (key.has(Modifier::approx)) return find_approximate(key);
  switch (key.op) {
    case Op::add:
      return rounded<add>(key.rounding);
    case Op::sub:
      return rounded<sub>(key.rounding);
    case Op::mul:
      return rounded<mul>(key.rounding);
    case Op::mad:
    case Op::fma:
      return rounded<fma>(key.rounding);
    case Op::div:
      return rounded<div>(key.rounding);
    case Op::rcp:
      return rounded<rcp>(key.rounding);
    case Op::sqrt:
      return rounded<sqrt>(key.rounding);
    case Op::min:
      return lanewise<extreme<false>>;
    case Op::max:
      return lanewise<extreme<true>>;
    case Op::abs_:
      return lanewise<absolute>;
    case Op::neg:
      return lanewise<negate>;
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
