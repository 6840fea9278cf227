// f16 and bf16 arithmetic, alone and in pairs (PTX ISA 9.7.4 and the bf16 forms of 9.7.3). Every result is rounded
// once:
//   add, sub   in f32: its 24 bits are at least 2 p + 2 for p = 11 and p = 8, so rounding twice is rounding once
//   mul, fma   the product is exact in double; the sum and the way down to f32 round to odd, which keeps every later
//              rounding to fewer bits right (bf16 has the exponents of f32, so even a product could round twice)
#include "vgpu/exec/ops/floats.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

struct Options {  // as a template argument
  bool ftz = false, sat = false, relu = false;
};

template <Options O, class Half>
VGPU_INLINE float number(Half x) {
  if constexpr (!O.ftz) return to_float(x);
  return to_float(Half{static_cast<std::uint16_t>((x.bits & 0x7c00u) == 0 ? x.bits & 0x8000u : x.bits)});
}

template <Options O, class Half>
VGPU_INLINE Half rounded(float x) {
  const Half result = round_to<Half>(rectify<O.relu>(saturate<O.sat>(x)));
  if constexpr (!O.ftz) return result;
  const std::uint32_t bits = result.bits;
  return Half{static_cast<std::uint16_t>((bits & 0x7c00u) == 0 ? bits & 0x8000u : bits)};
}

VGPU_INLINE double sum_to_odd(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);  // exact (Knuth); NaN beside infinities
  const bool inexact = error < 0 || error > 0;
  const std::uint64_t away = bits_of(sum) + 1, toward = bits_of(sum) - 1;
  const std::uint64_t odd = (error > 0) == (sum > 0) ? away : toward;
  return inexact && (bits_of(sum) & 1u) == 0 ? double_of(odd) : sum;
}

VGPU_INLINE float float_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const double error = x - static_cast<double>(nearest);
  const bool inexact = error < 0 || error > 0;
  const std::uint32_t away = bits_of(nearest) + 1, toward = bits_of(nearest) - 1;
  const bool below_zero = x < 0;  // nearest itself may be a zero of either sign
  const std::uint32_t odd = (error > 0) != below_zero ? away : toward;
  return inexact && (bits_of(nearest) & 1u) == 0 ? float_of(odd) : nearest;
}

template <Options O, class Half>
Half add(Half a, Half b) {
  return rounded<O, Half>(number<O>(a) + number<O>(b));
}
template <Options O, class Half>
Half sub(Half a, Half b) {
  return rounded<O, Half>(number<O>(a) - number<O>(b));
}
template <Options O, class Half>
Half mul(Half a, Half b) {
  if constexpr (std::is_same_v<Half, F16>) return rounded<O, Half>(number<O>(a) * number<O>(b));  // exact in f32
  return rounded<O, Half>(float_to_odd(static_cast<double>(number<O>(a)) * static_cast<double>(number<O>(b))));
}
template <Options O, class Half>
Half fma(Half a, Half b, Half c) {
  const double product = static_cast<double>(number<O>(a)) * static_cast<double>(number<O>(b));
  return rounded<O, Half>(float_to_odd(sum_to_odd(product, static_cast<double>(number<O>(c)))));
}

template <bool Max, bool Ftz, bool Nan, bool XorSign, class Half>
Half pick(Half a, Half b) {
  constexpr Options options{.ftz = Ftz};
  return round_to<Half>(extreme<Max, Nan, XorSign>(number<options>(a), number<options>(b)));
}
template <bool Ftz, class Half>
Half absolute(Half a) {
  const std::uint32_t bits = a.bits & 0x7fffu;
  return Half{static_cast<std::uint16_t>(Ftz && bits < 0x400u ? 0u : bits)};
}
template <bool Ftz, class Half>
Half negate(Half a) {
  const std::uint32_t bits = a.bits ^ 0x8000u;
  return Half{static_cast<std::uint16_t>(Ftz && (bits & 0x7c00u) == 0 ? bits & 0x8000u : bits)};
}

// The same function on both halves of a register.
template <class Half>
VGPU_INLINE Half low(std::uint32_t pair) {
  return Half{static_cast<std::uint16_t>(pair)};
}
template <class Half>
VGPU_INLINE Half high(std::uint32_t pair) {
  return Half{static_cast<std::uint16_t>(pair >> 16)};
}
template <class Half>
VGPU_INLINE std::uint32_t pair_of(Half lower, Half upper) {
  return lower.bits | static_cast<std::uint32_t>(upper.bits) << 16;
}

template <auto Function>
struct Both;
template <class Half, Half (*Function)(Half)>
struct Both<Function> {
  static std::uint32_t apply(std::uint32_t a) { return pair_of(Function(low<Half>(a)), Function(high<Half>(a))); }
};
template <class Half, Half (*Function)(Half, Half)>
struct Both<Function> {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b) {
    return pair_of(Function(low<Half>(a), low<Half>(b)), Function(high<Half>(a), high<Half>(b)));
  }
};
template <class Half, Half (*Function)(Half, Half, Half)>
struct Both<Function> {
  static std::uint32_t apply(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return pair_of(Function(low<Half>(a), low<Half>(b), low<Half>(c)),
                   Function(high<Half>(a), high<Half>(b), high<Half>(c)));
  }
};

template <bool Pair, auto Function>
constexpr Handler single_or_pair() {
  if constexpr (Pair) return lanewise<Both<Function>::apply>;
  return lanewise<Function>;
}

template <bool Pair, class Half, Options O>
Handler arithmetic(const Key& key) {
  if (key.rounding != Rounding::none && key.rounding != Rounding::rn) return nullptr;
  switch (key.op) {
    case Op::add:
      return single_or_pair<Pair, add<O, Half>>();
    case Op::sub:
      return single_or_pair<Pair, sub<O, Half>>();
    case Op::mul:
      return single_or_pair<Pair, mul<O, Half>>();
    case Op::fma:
      return single_or_pair<Pair, fma<O, Half>>();
    default:
      return nullptr;
  }
}

template <bool Pair, class Half, bool Max, bool Ftz>
Handler extremes(const Key& key) {
  const bool nan = key.has(Modifier::NaN), xorsign = key.has(Modifier::xorsign);
  if (nan && xorsign) return single_or_pair<Pair, pick<Max, Ftz, true, true, Half>>();
  if (nan) return single_or_pair<Pair, pick<Max, Ftz, true, false, Half>>();
  if (xorsign) return single_or_pair<Pair, pick<Max, Ftz, false, true, Half>>();
  return single_or_pair<Pair, pick<Max, Ftz, false, false, Half>>();
}

template <bool Pair, class Half, bool Ftz>
Handler flushed(const Key& key) {
  switch (key.op) {
    case Op::min:
      return extremes<Pair, Half, false, Ftz>(key);
    case Op::max:
      return extremes<Pair, Half, true, Ftz>(key);
    case Op::abs_:
      return single_or_pair<Pair, absolute<Ftz, Half>>();
    case Op::neg:
      return single_or_pair<Pair, negate<Ftz, Half>>();
    default:
      break;
  }
  if (key.has(Modifier::sat)) return arithmetic<Pair, Half, Options{.ftz = Ftz, .sat = true}>(key);
  if (key.has(Modifier::relu)) return arithmetic<Pair, Half, Options{.ftz = Ftz, .relu = true}>(key);
  return arithmetic<Pair, Half, Options{.ftz = Ftz}>(key);
}

template <bool Pair, class Half>
Handler of_half(const Key& key) {
  if constexpr (std::is_same_v<Half, F16>) {
    if (key.has(Modifier::ftz)) return flushed<Pair, Half, true>(key);
  }
  return key.has(Modifier::ftz) ? nullptr : flushed<Pair, Half, false>(key);
}

}  // namespace

Handler find_half(const Key& key) {
  if (key.type_count != 1) return nullptr;
  switch (key.type()) {
    case Type::f16:
      return of_half<false, F16>(key);
    case Type::f16x2:
      return of_half<true, F16>(key);
    case Type::bf16:
      return of_half<false, BF16>(key);
    case Type::bf16x2:
      return of_half<true, BF16>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
