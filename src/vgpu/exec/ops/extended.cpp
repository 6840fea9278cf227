// Integer arithmetic beyond the plain: carries and saturation (PTX ISA 9.7.1, 9.7.2), 64-bit high products, 24-bit
// products, sums of absolute differences, dot products of bytes, and pairs of 16-bit numbers.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using): __extension__ wants a declaration
__extension__ typedef unsigned __int128 UInt128;

template <class T>
using Twice = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, Int128, UInt128>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>>>;

template <class T>
T mul_hi(T a, T b) {
  return static_cast<T>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b) >> width<T>);
}
template <class T>
T mad_hi(T a, T b, T c) {
  return static_cast<T>(as_unsigned(mul_hi<T>(a, b)) + as_unsigned(c));
}

std::int32_t clamp_s32(std::int64_t x) {
  return static_cast<std::int32_t>(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
}
std::int32_t add_sat(std::int32_t a, std::int32_t b) {
  return clamp_s32(std::int64_t{a} + b);
}
std::int32_t sub_sat(std::int32_t a, std::int32_t b) {
  return clamp_s32(std::int64_t{a} - b);
}
std::int32_t mad_hi_sat(std::int32_t a, std::int32_t b, std::int32_t c) {
  return clamp_s32(std::int64_t{mul_hi<std::int32_t>(a, b)} + c);
}

// The low 24 bits of each source as a number; .lo is the low 32 bits of the 48-bit product, .hi its high 32 (9.7.1.5).
template <class T>
std::int64_t low24(T a) {
  if constexpr (std::is_signed_v<T>) return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << 8) >> 8;
  return a & 0xffffffu;
}
template <class T>
T mul24_lo(T a, T b) {
  return static_cast<T>(low24(a) * low24(b));
}
template <class T>
T mul24_hi(T a, T b) {
  return static_cast<T>(low24(a) * low24(b) >> 16);
}
template <class T>
T mad24_lo(T a, T b, T c) {
  return static_cast<T>(as_unsigned(mul24_lo<T>(a, b)) + as_unsigned(c));
}
template <class T>
T mad24_hi(T a, T b, T c) {
  return static_cast<T>(as_unsigned(mul24_hi<T>(a, b)) + as_unsigned(c));
}
std::int32_t mad24_hi_sat(std::int32_t a, std::int32_t b, std::int32_t c) {
  return clamp_s32(std::int64_t{mul24_hi<std::int32_t>(a, b)} + c);
}

template <class T>
T sad(T a, T b, T c) {
  const auto difference = a < b ? as_unsigned(b) - as_unsigned(a) : as_unsigned(a) - as_unsigned(b);
  return static_cast<T>(as_unsigned(c) + difference);
}

// Byte i of a word as a number.
template <bool Signed>
std::int32_t byte_of(std::uint32_t word, int i) {
  if constexpr (Signed) return static_cast<std::int8_t>(word >> (8 * i));
  return static_cast<std::uint8_t>(word >> (8 * i));
}
template <bool Signed>
std::int32_t half_of(std::uint32_t word, int i) {
  if constexpr (Signed) return static_cast<std::int16_t>(word >> (16 * i));
  return static_cast<std::uint16_t>(word >> (16 * i));
}
template <bool A, bool B>
std::uint32_t dp4a(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  for (int i = 0; i < 4; ++i) c += static_cast<std::uint32_t>(byte_of<A>(a, i) * byte_of<B>(b, i));
  return c;
}
template <bool A, bool B, bool High>  // two halves of a with the two low or high bytes of b (9.7.1.24)
std::uint32_t dp2a(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  for (int i = 0; i < 2; ++i) c += static_cast<std::uint32_t>(half_of<A>(a, i) * byte_of<B>(b, i + (High ? 2 : 0)));
  return c;
}

// 16-bit pairs (sm_90): the same on both halves.
template <class T, T (*Function)(T, T)>
std::uint32_t on_both(std::uint32_t a, std::uint32_t b) {
  const T low = Function(static_cast<T>(a), static_cast<T>(b));
  const T high = Function(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<std::uint16_t>(low) | static_cast<std::uint32_t>(static_cast<std::uint16_t>(high)) << 16;
}
template <class T>
T add16(T a, T b) {
  return static_cast<T>(a + b);
}
template <class T>
T min16(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T max16(T a, T b) {
  return a > b ? a : b;
}
template <class T, T (*Function)(T, T)>  // .relu: negative results become 0
T rectified(T a, T b) {
  const T result = Function(a, b);
  return result < 0 ? T(0) : result;
}

// Extended precision: the carry in comes from predicate m, the carry out goes to predicate e (9.7.2). A borrow is a
// carry: sub.cc sets the flag when it borrows.
enum class Extended { add, sub, mad_lo, mad_hi };

template <Extended E, class T, bool In, bool Out>
void extended(Warp& warp, const Inst& inst) {
  const Cell<T>* a = cells<T>(warp, inst.a);
  const Cell<T>* b = cells<T>(warp, inst.b);
  const Cell<T>* c = E == Extended::mad_lo || E == Extended::mad_hi ? cells<T>(warp, inst.c) : nullptr;
  const std::uint32_t carries_in = In ? warp.predicates[inst.m] : 0u;
  std::uint32_t carries_out = 0;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    const T x = from_cell<T>(a[lane]), y = from_cell<T>(b[lane]);
    const UInt128 carry = bit(carries_in, lane) ? 1 : 0;
    UInt128 exact = 0;
    if constexpr (E == Extended::add) exact = UInt128{as_unsigned(x)} + as_unsigned(y) + carry;
    if constexpr (E == Extended::sub) exact = UInt128{as_unsigned(x)} - as_unsigned(y) - carry;
    if constexpr (E == Extended::mad_lo || E == Extended::mad_hi) {
      const Twice<T> product = static_cast<Twice<T>>(x) * static_cast<Twice<T>>(y);
      const auto part = static_cast<Unsigned<T>>(E == Extended::mad_hi ? product >> width<T> : product);
      exact = UInt128{part} + as_unsigned(from_cell<T>(c[lane])) + carry;
    }
    cells<T>(warp, inst.d)[lane] = to_cell<T>(static_cast<T>(static_cast<Unsigned<T>>(exact)));
    carries_out |= static_cast<std::uint32_t>(exact >> width<T> & 1u) << lane;
  }
  if constexpr (Out) write_predicate(warp, inst.e, carries_out);
}

template <Extended E, class T>
Handler carrying(bool in, bool out) {
  if (in) return out ? extended<E, T, true, true> : extended<E, T, true, false>;
  return out ? extended<E, T, false, true> : nullptr;
}

template <class T>
Handler carrying_op(const Key& key) {
  const bool out = key.has(Modifier::cc);
  switch (key.op) {
    case Op::add:
    case Op::addc:
      return carrying<Extended::add, T>(key.op == Op::addc, out);
    case Op::sub:
    case Op::subc:
      return carrying<Extended::sub, T>(key.op == Op::subc, out);
    case Op::mad:
    case Op::madc:
      if (key.has(Modifier::hi)) return carrying<Extended::mad_hi, T>(key.op == Op::madc, out);
      return key.has(Modifier::lo) ? carrying<Extended::mad_lo, T>(key.op == Op::madc, out) : nullptr;
    default:
      return nullptr;
  }
}

Handler saturating(const Key& key) {
  if (key.type() != Type::s32 || !key.has(Modifier::sat)) return nullptr;
  if (key.op == Op::add) return lanewise<add_sat>;
  if (key.op == Op::sub) return lanewise<sub_sat>;
  if (key.op == Op::mad && key.has(Modifier::hi)) return lanewise<mad_hi_sat>;
  return key.op == Op::mad24 && key.has(Modifier::hi) ? lanewise<mad24_hi_sat> : nullptr;
}

template <class T>
Handler products_of_24_bits(const Key& key) {
  const bool hi = key.has(Modifier::hi);
  if (key.op == Op::mul24) return hi ? lanewise<mul24_hi<T>> : lanewise<mul24_lo<T>>;
  return key.op == Op::mad24 ? (hi ? lanewise<mad24_hi<T>> : lanewise<mad24_lo<T>>) : nullptr;
}

template <class T>
Handler wide_high(const Key& key) {
  if (!key.has(Modifier::hi)) return nullptr;
  if (key.op == Op::mul) return lanewise<mul_hi<T>>;
  return key.op == Op::mad ? lanewise<mad_hi<T>> : nullptr;
}

Handler dot_product(const Key& key) {
  const bool a = key.types[0] == Type::s32, b = key.types[1] == Type::s32, high = key.has(Modifier::hi);
  if (key.op == Op::dp4a) {
    if (a) return b ? lanewise<dp4a<true, true>> : lanewise<dp4a<true, false>>;
    return b ? lanewise<dp4a<false, true>> : lanewise<dp4a<false, false>>;
  }
  if (high) {
    if (a) return b ? lanewise<dp2a<true, true, true>> : lanewise<dp2a<true, false, true>>;
    return b ? lanewise<dp2a<false, true, true>> : lanewise<dp2a<false, false, true>>;
  }
  if (a) return b ? lanewise<dp2a<true, true, false>> : lanewise<dp2a<true, false, false>>;
  return b ? lanewise<dp2a<false, true, false>> : lanewise<dp2a<false, false, false>>;
}

template <class T>
Handler sixteen_bit_pairs(const Key& key) {
  if (key.op == Op::add) return lanewise<on_both<T, add16<T>>>;
  if (key.op != Op::min && key.op != Op::max) return nullptr;
  if (key.has(Modifier::relu)) {
    return key.op == Op::min ? lanewise<on_both<T, rectified<T, min16<T>>>>
                             : lanewise<on_both<T, rectified<T, max16<T>>>>;
  }
  return key.op == Op::min ? lanewise<on_both<T, min16<T>>> : lanewise<on_both<T, max16<T>>>;
}

Handler rectified_s32(const Key& key) {
  if (key.type() != Type::s32 || !key.has(Modifier::relu)) return nullptr;
  if (key.op == Op::min) return lanewise<rectified<std::int32_t, min16<std::int32_t>>>;
  return key.op == Op::max ? lanewise<rectified<std::int32_t, max16<std::int32_t>>> : nullptr;
}

template <class T>
Handler of_type(const Key& key) {
  if (key.op == Op::sad) return lanewise<sad<T>>;
  if constexpr (sizeof(T) == 2) return nullptr;
  if (key.has(Modifier::cc) || key.op == Op::addc || key.op == Op::subc || key.op == Op::madc) {
    return carrying_op<T>(key);
  }
  if constexpr (sizeof(T) == 8) return wide_high<T>(key);
  return products_of_24_bits<T>(key);
}

}  // namespace

Handler find_extended(const Key& key) {
  if (key.op == Op::dp4a || key.op == Op::dp2a) return key.type_count == 2 ? dot_product(key) : nullptr;
  if (const Handler found = saturating(key)) return found;
  if (const Handler found = rectified_s32(key)) return found;
  switch (key.type()) {
    case Type::u16:
      return of_type<std::uint16_t>(key);
    case Type::s16:
      return of_type<std::int16_t>(key);
    case Type::b32:
    case Type::u32:
      return of_type<std::uint32_t>(key);
    case Type::s32:
      return of_type<std::int32_t>(key);
    case Type::b64:
    case Type::u64:
      return of_type<std::uint64_t>(key);
    case Type::s64:
      return of_type<std::int64_t>(key);
    case Type::u16x2:
      return sixteen_bit_pairs<std::uint16_t>(key);
    case Type::s16x2:
      return sixteen_bit_pairs<std::int16_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::common
