// The conversions that kernels are full of (cvt, PTX ISA 9.7.9.21): between integers, between f32 and the halves, and
// 8-bit floats to f16. The rest is in convert.cpp.
#include "vgpu/exec/ops/floats.hpp"
#include "vgpu/exec/ops/integers.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <class D, class S>
D integer_to_integer(S a) {
  return static_cast<D>(a);
}

template <class S>
Handler from_integer(const Key& key) {
  switch (width_of(key.types[0])) {
    case 8:
      return lanewise<integer_to_integer<std::uint8_t, S>>;
    case 16:
      return lanewise<integer_to_integer<std::uint16_t, S>>;
    case 32:
      return lanewise<integer_to_integer<std::uint32_t, S>>;
    case 64:
      return lanewise<integer_to_integer<std::uint64_t, S>>;
    default:
      return nullptr;
  }
}

// Neither a register wider than its type (only a signed one would need its sign spread, or two slots) nor .sat.
Handler between_integers(const Key& key) {
  const Type to = key.types[0], from = key.types[1];
  const int cell_of_source = width_of(from) == 64 ? 64 : 32, cell_of_result = width_of(to) == 64 ? 64 : 32;
  if (key.has(Modifier::sat) || key.source_bits > cell_of_source || key.destination_bits > cell_of_result) {
    return nullptr;
  }
  if (kind_of(to) == Kind::signed_integer && key.destination_bits > width_of(to)) return nullptr;
  switch (from) {
    case Type::s8:
      return from_integer<std::int8_t>(key);
    case Type::b8:
    case Type::u8:
      return from_integer<std::uint8_t>(key);
    case Type::s16:
      return from_integer<std::int16_t>(key);
    case Type::b16:
    case Type::u16:
      return from_integer<std::uint16_t>(key);
    case Type::s32:
      return from_integer<std::int32_t>(key);
    case Type::b32:
    case Type::u32:
      return from_integer<std::uint32_t>(key);
    case Type::s64:
      return from_integer<std::int64_t>(key);
    case Type::b64:
    case Type::u64:
      return from_integer<std::uint64_t>(key);
    default:
      return nullptr;
  }
}

template <class Half, bool Ftz>
float widen(Half a) {
  return flush<Ftz>(canonical(to_float(a)));
}
template <class Half, bool Relu>
Half narrow(float a) {
  return round_to<Half>(rectify<Relu>(a));
}
// The first source becomes the upper half.
template <class Half, bool Relu>
std::uint32_t narrow_two(float a, float b) {
  return static_cast<std::uint32_t>(narrow<Half, Relu>(a).bits) << 16 | narrow<Half, Relu>(b).bits;
}

#if defined(__F16C__)
// The host rounds eight numbers to f16 as the manual says; the canonical NaN of f32 becomes that of f16.
template <bool Relu>
VGPU_INLINE __m256i f16_bits(const std::uint32_t* from) {
  alignas(32) float values[8];
  for (int i = 0; i < 8; ++i) values[i] = canonical(rectify<Relu>(float_of(from[i])));
  return _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_load_ps(values), _MM_FROUND_TO_NEAREST_INT));
}
template <bool Relu>
void narrow_two_f16(Warp& warp, const Inst& inst) {
  alignas(32) std::uint32_t result[lanes_per_warp];
  for (int lane = 0; lane < lanes_per_warp; lane += 8) {
    const __m256i upper = f16_bits<Relu>(warp.slot(inst.a) + lane), lower = f16_bits<Relu>(warp.slot(inst.b) + lane);
    _mm256_store_si256(reinterpret_cast<__m256i*>(result + lane), _mm256_or_si256(_mm256_slli_epi32(upper, 16), lower));
  }
  write_lanes<std::uint32_t>(warp, inst.d, [&](int lane) { return result[lane]; });
}
#else
template <bool Relu>
constexpr Handler narrow_two_f16 = lanewise<narrow_two<F16, Relu>>;
#endif

// e4m3: exponent bias 7, no infinity, 0x7f is NaN; e5m2: the upper byte of an f16 (PTX ISA 5.2.3).
VGPU_INLINE std::uint32_t f16_of_e4m3(std::uint32_t byte) {
  const std::uint32_t magnitude = byte & 0x7fu;
  // Normal: shift the fraction into place and rebias by 8. Subnormal: m 2^-9 = m 2^15 ulp of f16, normalised by hand.
  const std::uint32_t normal = (magnitude << 7) + (8u << 10);
  const std::uint32_t subnormal = magnitude >= 4   ? 0x2000u | (magnitude & 3u) << 8
                                  : magnitude >= 2 ? 0x1c00u | (magnitude & 1u) << 9
                                  : magnitude == 1 ? 0x1800u
                                                   : 0u;
  const std::uint32_t value = magnitude < 8 ? subnormal : normal;
  return magnitude == 0x7fu ? nan_f16 : value | (byte & 0x80u) << 8;
}
VGPU_INLINE std::uint32_t f16_of_e5m2(std::uint32_t byte) {
  return (byte & 0x7fu) > 0x7cu ? nan_f16 : byte << 8;
}
template <bool Relu>
VGPU_INLINE std::uint32_t rectified(std::uint32_t half) {  // -x and -0 become +0; the canonical NaN has no sign
  return Relu && (half & 0x8000u) != 0 ? 0u : half;
}
template <bool Relu>
std::uint32_t f16x2_of_e4m3x2(std::uint16_t a) {
  return rectified<Relu>(f16_of_e4m3(a & 0xffu)) | rectified<Relu>(f16_of_e4m3(a >> 8)) << 16;
}
template <bool Relu>
std::uint32_t f16x2_of_e5m2x2(std::uint16_t a) {
  return rectified<Relu>(f16_of_e5m2(a & 0xffu)) | rectified<Relu>(f16_of_e5m2(a >> 8u & 0xffu)) << 16;
}

template <class S>
float rounded_f32(S a) {
  return static_cast<float>(a);
}
enum class ToIntegral { nearest, zero, down, up };

// NaN becomes 0, numbers beyond the type's range its ends.
template <class D, ToIntegral R, bool Ftz>
D to_integer(float a) {
  const float x = flush<Ftz>(a);
  const float whole = R == ToIntegral::nearest ? __builtin_nearbyintf(x)
                      : R == ToIntegral::down  ? __builtin_floorf(x)
                      : R == ToIntegral::up    ? __builtin_ceilf(x)
                                               : __builtin_truncf(x);
  constexpr float above = std::is_signed_v<D> ? 0x1p31f : 0x1p32f, below = std::is_signed_v<D> ? -0x1p31f : 0.0f;
  constexpr D most = std::is_signed_v<D> ? static_cast<D>(0x7fffffff) : static_cast<D>(0xffffffffu);
  constexpr D least = std::is_signed_v<D> ? static_cast<D>(0x80000000u) : D{0};
  const bool inside = whole >= below && whole < above;
  const D converted = static_cast<D>(inside ? whole : 0.0f);
  return whole >= above ? most : whole < below ? least : converted;
}
template <class D, bool Ftz>
Handler rounding_to(Rounding rounding) {
  switch (rounding) {
    case Rounding::rni:
      return lanewise<to_integer<D, ToIntegral::nearest, Ftz>>;
    case Rounding::rzi:
      return lanewise<to_integer<D, ToIntegral::zero, Ftz>>;
    case Rounding::rmi:
      return lanewise<to_integer<D, ToIntegral::down, Ftz>>;
    case Rounding::rpi:
      return lanewise<to_integer<D, ToIntegral::up, Ftz>>;
    default:
      return nullptr;
  }
}
template <class D>
Handler float_to(const Key& key) {
  return key.has(Modifier::ftz) ? rounding_to<D, true>(key.rounding) : rounding_to<D, false>(key.rounding);
}
// f32 from and to 32-bit integers in registers of their own width.
Handler with_integers(const Key& key) {
  const Type to = key.types[0], from = key.types[1];
  if (to == Type::f32 && key.rounding == Rounding::rn && !key.has(Modifier::sat) && key.source_bits <= 32) {
    if (from == Type::s32) return lanewise<rounded_f32<std::int32_t>>;
    if (from == Type::u32) return lanewise<rounded_f32<std::uint32_t>>;
  }
  if (from == Type::f32 && key.destination_bits <= 32) {
    if (to == Type::s32) return float_to<std::int32_t>(key);
    if (to == Type::u32) return float_to<std::uint32_t>(key);
  }
  return nullptr;
}

// rn, and zero or more of the modifiers named.
bool nearest_with(const Key& key, bool relu) {
  return key.rounding == Rounding::rn && !key.has(Modifier::satfinite) && !key.has(Modifier::ftz) &&
         !key.has(Modifier::sat) && key.has(Modifier::relu) == relu;
}

template <bool Relu>
Handler narrowing(const Key& key) {
  if (!nearest_with(key, Relu)) return nullptr;
  switch (key.types[0]) {
    case Type::f16:
      return lanewise<narrow<F16, Relu>>;
    case Type::bf16:
      return lanewise<narrow<BF16, Relu>>;
    case Type::f16x2:
      return narrow_two_f16<Relu>;
    case Type::bf16x2:
      return lanewise<narrow_two<BF16, Relu>>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler find_convert(const Key& key) {
  if (key.op != Op::cvt || key.type_count != 2 || key.has(Modifier::pack)) return nullptr;
  const Type to = key.types[0], from = key.types[1];
  if (width_of(to) != 0 && width_of(from) != 0) return between_integers(key);
  if (width_of(to) != 0 || width_of(from) != 0) return with_integers(key);
  if (from == Type::f32) return key.has(Modifier::relu) ? narrowing<true>(key) : narrowing<false>(key);
  if (to == Type::f32 && key.rounding == Rounding::none && !key.has(Modifier::sat)) {
    const bool ftz = key.has(Modifier::ftz);
    if (from == Type::f16) return ftz ? lanewise<widen<F16, true>> : lanewise<widen<F16, false>>;
    if (from == Type::bf16) return ftz ? lanewise<widen<BF16, true>> : lanewise<widen<BF16, false>>;
  }
  if (to == Type::f16x2) {
    const bool relu = key.has(Modifier::relu);
    if (from == Type::e4m3x2) return relu ? lanewise<f16x2_of_e4m3x2<true>> : lanewise<f16x2_of_e4m3x2<false>>;
    if (from == Type::e5m2x2) return relu ? lanewise<f16x2_of_e5m2x2<true>> : lanewise<f16x2_of_e5m2x2<false>>;
  }
  return nullptr;
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
