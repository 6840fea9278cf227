// The approximate functions on f32 (PTX ISA 9.7.3). A device computes them in its special function units; here each
// stays within the manual's error bound and equals the manual's table at zeros, infinities, NaN and subnormals.
// Everything is written with fused multiply-adds, so that all variants give the same bits.
#include "vgpu/exec/ops/floats.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

VGPU_INLINE float power_of_two(std::int32_t exponent) {  // -126 .. 127
  return float_of(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// To the nearest integer, |x| < 2^22: the sum has no bits left below the point.
VGPU_INLINE float nearest_integer(float x) {
  return (x + 0x1.8p23f) - 0x1.8p23f;
}

// 2^f, |f| <= 1/2, by its Taylor series: the first term left out is below 2^-27, the bound is 2^-22.5.
VGPU_INLINE float exp2_of_fraction(float f) {
  float p = 1.52527338e-5f;  // ln(2)^7 / 7!
  p = __builtin_fmaf(p, f, 1.54035304e-4f);
  p = __builtin_fmaf(p, f, 1.33335581e-3f);
  p = __builtin_fmaf(p, f, 9.61812911e-3f);
  p = __builtin_fmaf(p, f, 5.55041087e-2f);
  p = __builtin_fmaf(p, f, 2.40226507e-1f);
  p = __builtin_fmaf(p, f, 6.93147181e-1f);
  return __builtin_fmaf(p, f, 1.0f);
}

// 2^x = 2^n 2^f.
VGPU_INLINE float exp2_of(float x) {
  const float low = x > -151.0f ? x : -151.0f;  // NaN becomes a number here; the caller puts it back
  const float clamped = low < 129.0f ? low : 129.0f;
  const float n = nearest_integer(clamped);
  // In two steps: 2^-151 and 2^129 are no normal numbers, but their roots are; only the last product may round.
  const auto exponent = static_cast<std::int32_t>(n);
  const std::int32_t half = exponent >> 1;
  return exp2_of_fraction(clamped - n) * power_of_two(half) * power_of_two(exponent - half);
}

// The same where the result is a normal number or infinity: 2^n goes straight into the exponent of 2^f, and 2^128 with
// f = 0 is the pattern of infinity.
VGPU_INLINE float exp2_of_normal(float x) {
  const float low = x > -126.0f ? x : -126.0f;  // NaN becomes a number here; the caller puts it back
  const float clamped = low < 128.0f ? low : 128.0f;
  const float shifted = clamped + 0x1.8p23f;  // its low bits are n
  return float_of(bits_of(exp2_of_fraction(clamped - (shifted - 0x1.8p23f))) + (bits_of(shifted) << 23));
}

template <bool Ftz>
float ex2(float a) {
  std::uint32_t result;
  if constexpr (Ftz) {  // results below 2^-126 are flushed
    result = bits_of(exp2_of_normal(a));
    result = a < -126.0f ? 0u : result;
  } else {
    result = bits_of(exp2_of(a));
  }
  return float_of(a != a ? nan_f32 : result);
}

// log2(2^e m) = e + log2(m), sqrt(1/2) <= m < sqrt(2). With s = (m - 1) / (m + 1), |s| < 0.172:
// log2(m) = 2/ln(2) (s + s^3/3 + s^5/5 + s^7/7 + s^9/9 ...); what is left out is below 2^-30.
template <bool Ftz>
float lg2(float a) {
  const float x = flush<Ftz>(a);
  const bool subnormal = x < 0x1p-126f;
  const std::uint32_t bits = bits_of(subnormal ? x * 0x1p24f : x);
  const std::uint32_t above = bits - 0x3f3504f3u;  // of sqrt(1/2): its exponent field is floor(log2(x / sqrt(1/2)))
  const std::int32_t exponent = (static_cast<std::int32_t>(above) >> 23) - (subnormal ? 24 : 0);
  const float m = float_of((above & 0x7fffffu) + 0x3f3504f3u);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float square = s * s;
  float p = 3.20598898e-1f;  // 2 / (9 ln 2)
  p = __builtin_fmaf(p, square, 4.12198583e-1f);
  p = __builtin_fmaf(p, square, 5.77078016e-1f);
  p = __builtin_fmaf(p, square, 9.61796694e-1f);
  p = __builtin_fmaf(p, square, 2.88539008f);
  const float result = __builtin_fmaf(p, s, static_cast<float>(exponent));
  std::uint32_t answer = bits_of(result);
  answer = bits_of(x) == infinity_f32 ? infinity_f32 : answer;
  answer = x == 0 ? infinity_f32 | sign_f32 : answer;
  answer = x < 0 || x != x ? nan_f32 : answer;
  return float_of(answer);
}

// Quotient and root are exact to half an ulp on the host; the bounds are 1 ulp and 2^-22.9.
template <bool Ftz>
float rcp(float a) {
  return finish<Ftz, false>(1.0f / flush<Ftz>(a));
}
template <bool Ftz>
float sqrt(float a) {
  return finish<Ftz, false>(__builtin_sqrtf(flush<Ftz>(a)));
}
template <bool Ftz>
float rsqrt(float a) {
  return finish<Ftz, false>(1.0f / __builtin_sqrtf(flush<Ftz>(a)));
}

// a times the reciprocal of b: for |b| above 2^126 the reciprocal is subnormal and counts as zero (9.7.3.8).
template <bool Ftz>
float div(float a, float b) {
  const float x = flush<Ftz>(a), y = flush<Ftz>(b);
  const std::uint32_t magnitude = bits_of(y) & ~sign_f32;
  const bool vanishes = magnitude > 0x7e800000u && magnitude < infinity_f32;
  const float quotient = x / y;
  const float product = x * float_of(bits_of(y) & sign_f32);
  return finish<Ftz, false>(vanishes ? product : quotient);
}
template <bool Ftz>
float div_full(float a, float b) {
  return finish<Ftz, false>(flush<Ftz>(a) / flush<Ftz>(b));
}

// Sine and cosine of x = n pi/2 + r, |r| <= pi/4, in double; the Taylor series leave out less than 2^-25, the bound is
// 2^-20.5 on [-pi, pi]. Beyond 2^27 the reduction has no bits left (the manual promises none); r is held in its range.
template <bool Cosine, bool Ftz>
float trigonometric(float a) {
  const double x = flush<Ftz>(a);
  const double n = (x * 6.36619772367581382433e-1 + 0x1.8p52) - 0x1.8p52;
  double r = x - n * 1.57079632673412561417;  // pi/2, the first 33 bits: n times it is exact to 2^20
  r = r - n * 6.07710050650619224932e-11;     // and the rest
  r = r < -0.8 ? -0.8 : r > 0.8 ? 0.8 : r;
  const double quarter = n - 4.0 * ((n * 0.25 - 0.375 + 0x1.8p52) - 0x1.8p52);  // n mod 4
  const double q = Cosine ? quarter + 1.0 : quarter;
  const double square = r * r;
  const double sine =  // a product, so that the sine of -0 is -0
      r * (1.0 + square * (-1.0 / 6 + square * (1.0 / 120 + square * (-1.0 / 5040 + square * (1.0 / 362880)))));
  const double cosine = 1.0 + square * (-0.5 + square * (1.0 / 24 + square * (-1.0 / 720 + square * (1.0 / 40320))));
  const bool odd = q == 1.0 || q == 3.0;
  const double value = odd ? cosine : sine;
  const bool negative = q == 2.0 || q == 3.0;
  const auto result = static_cast<float>(negative ? -value : value);
  return float_of((bits_of(a) & ~sign_f32) >= infinity_f32 ? nan_f32 : bits_of(flush<Ftz>(result)));
}

// tanh(x) = 1 - 2 / (1 + e^2x), near zero by its series: the bound is 2^-11 (9.7.3.22).
float tanh(float a) {
  const float square = a * a;
  float p = 2.18694885e-2f;  // 62/2835
  p = __builtin_fmaf(p, square, -5.39682540e-2f);
  p = __builtin_fmaf(p, square, 1.33333333e-1f);
  p = __builtin_fmaf(p, square, -3.33333333e-1f);
  const float near_zero = a * __builtin_fmaf(p, square, 1.0f);  // -0 stays -0
  const float magnitude = float_of(bits_of(a) & ~sign_f32);
  const float x = magnitude < 16.0f ? magnitude : 16.0f;
  const float far = 1.0f - 2.0f / (1.0f + exp2_of(x * 2.88539008f));
  const float result = magnitude < 0.5f ? near_zero : float_of(bits_of(far) | (bits_of(a) & sign_f32));
  return float_of(a != a ? nan_f32 : bits_of(result));
}

template <class Half>
Half ex2_half(Half a) {
  return round_to<Half>(ex2<false>(to_float(a)));
}
template <class Half>
Half tanh_half(Half a) {
  return round_to<Half>(tanh(to_float(a)));
}
// One function on both halves of a register.
template <class Half, Half (*Function)(Half)>
std::uint32_t on_both(std::uint32_t a) {
  const Half low = Function(Half{static_cast<std::uint16_t>(a)});
  const Half high = Function(Half{static_cast<std::uint16_t>(a >> 16)});
  return low.bits | static_cast<std::uint32_t>(high.bits) << 16;
}
// ex2.approx.ftz.bf16: subnormal inputs and results are flushed.
BF16 ex2_bf16(BF16 a) {
  return round_to<BF16>(ex2<true>(to_float(a)));
}

template <bool Ftz>
Handler on_float(const Key& key) {
  switch (key.op) {
    case Op::ex2:
      return lanewise<ex2<Ftz>>;
    case Op::lg2:
      return lanewise<lg2<Ftz>>;
    case Op::rcp:
      return lanewise<rcp<Ftz>>;
    case Op::sqrt:
      return lanewise<sqrt<Ftz>>;
    case Op::rsqrt:
      return lanewise<rsqrt<Ftz>>;
    case Op::sin:
      return lanewise<trigonometric<false, Ftz>>;
    case Op::cos:
      return lanewise<trigonometric<true, Ftz>>;
    case Op::div:
      return key.has(Modifier::full) ? lanewise<div_full<Ftz>> : lanewise<div<Ftz>>;
    case Op::tanh:
      return lanewise<tanh>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler find_approximate(const Key& key) {
  if (!key.has(Modifier::approx) && !key.has(Modifier::full)) return nullptr;
  const bool is_ex2 = key.op == Op::ex2, is_tanh = key.op == Op::tanh;
  switch (key.type()) {
    case Type::f32:
      return key.has(Modifier::ftz) ? on_float<true>(key) : on_float<false>(key);
    case Type::f16:
      return is_ex2 ? lanewise<ex2_half<F16>> : is_tanh ? lanewise<tanh_half<F16>> : nullptr;
    case Type::f16x2:
      return is_ex2    ? lanewise<on_both<F16, ex2_half<F16>>>
             : is_tanh ? lanewise<on_both<F16, tanh_half<F16>>>
                       : nullptr;
    case Type::bf16:
      return is_ex2 ? lanewise<ex2_bf16> : is_tanh ? lanewise<tanh_half<BF16>> : nullptr;
    case Type::bf16x2:
      return is_ex2 ? lanewise<on_both<BF16, ex2_bf16>> : is_tanh ? lanewise<on_both<BF16, tanh_half<BF16>>> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
