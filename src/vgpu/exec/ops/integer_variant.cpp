// Integer arithmetic, logic and shifts (PTX ISA 9.7.1, 9.7.8). Bit patterns that a compiler emits by the dozen are
// here; the rarer ones are in bits.cpp.
#include "vgpu/exec/ops/integers.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <class T>
T add(T a, T b) {
  return static_cast<T>(as_unsigned(a) + as_unsigned(b));
}
template <class T>
T sub(T a, T b) {
  return static_cast<T>(as_unsigned(a) - as_unsigned(b));
}
template <class T>
T mul_lo(T a, T b) {
  return static_cast<T>(as_unsigned(a) * as_unsigned(b));
}
template <class T>
T mad_lo(T a, T b, T c) {
  return static_cast<T>(as_unsigned(a) * as_unsigned(b) + as_unsigned(c));
}
template <class D, class T>
D mul_wide(T a, T b) {
  return static_cast<D>(static_cast<D>(a) * static_cast<D>(b));
}
template <class D, class T>
D mad_wide(T a, T b, D c) {
  return static_cast<D>(as_unsigned(mul_wide<D, T>(a, b)) + as_unsigned(c));
}
template <class D, class T>
T mul_hi(T a, T b) {
  return static_cast<T>(mul_wide<D, T>(a, b) >> width<T>);
}
template <class D, class T>
T mad_hi(T a, T b, T c) {
  return add<T>(mul_hi<D, T>(a, b), c);
}
template <class T>
T minimum(T a, T b) {
  return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T negate(T a) {
  return static_cast<T>(0 - as_unsigned(a));
}
template <class T>
T absolute(T a) {  // of the smallest number: itself
  return a < 0 ? negate<T>(a) : a;
}

template <class T>
T and_(T a, T b) {
  return a & b;
}
template <class T>
T or_(T a, T b) {
  return a | b;
}
template <class T>
T xor_(T a, T b) {
  return a ^ b;
}
template <class T>
T not_(T a) {
  return static_cast<T>(~a);
}
template <class T>
T cnot(T a) {
  return a == 0 ? 1 : 0;
}

// Shift amounts are 32-bit and clamped to the width (9.7.8.8): all bits leave, or only the sign stays.
template <class T>
T shl(T a, std::uint32_t b) {
  return b < width<T> ? static_cast<T>(as_unsigned(a) << (b & (width<T> - 1))) : T(0);
}
template <class T>
T shr(T a, std::uint32_t b) {
  if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> (b < width<T> ? b : width<T> - 1));
  return b < width<T> ? static_cast<T>(as_unsigned(a) >> (b & (width<T> - 1))) : T(0);
}

// shf: 64 bits {b, a} shifted, one half kept (9.7.8.7).
template <bool Wrap>
std::uint32_t shf_left(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t amount = Wrap ? c & 31u : minimum<std::uint32_t>(c, 32u);
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  return static_cast<std::uint32_t>(both << amount >> 32);
}
template <bool Wrap>
std::uint32_t shf_right(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint32_t amount = Wrap ? c & 31u : minimum<std::uint32_t>(c, 32u);
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  return static_cast<std::uint32_t>(both >> amount);
}

// bfi: the low `length` bits of a into b from bit `position` on; both count modulo 256 (9.7.1.20).
template <class T>
T bfi(T a, T b, std::uint32_t position, std::uint32_t length) {
  const T ones = static_cast<T>(~T(0));
  const T field = not_<T>(shl<T>(ones, length & 255u));
  const T mask = shl<T>(field, position & 255u);
  return static_cast<T>((shl<T>(a, position & 255u) & mask) | (b & not_<T>(mask)));
}

// prmt: four bytes out of {b, a}, chosen by c; bit 3 of a selector copies the byte's sign over it (9.7.9.7).
std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  const std::uint64_t both = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t selector = c >> (4 * i);
    const auto byte = static_cast<std::uint32_t>(both >> (8 * (selector & 7u))) & 0xffu;
    const std::uint32_t sign = (0u - (byte >> 7)) & 0xffu;
    result |= ((selector & 8u) != 0 ? sign : byte) << (8 * i);
  }
  return result;
}

void lop3(Warp& warp, const Inst& inst) {  // the table's bit number is a:b:c (9.7.8.6)
  const Cell<std::uint32_t>* a = cells<std::uint32_t>(warp, inst.a);
  const Cell<std::uint32_t>* b = cells<std::uint32_t>(warp, inst.b);
  const Cell<std::uint32_t>* c = cells<std::uint32_t>(warp, inst.c);
  std::uint32_t rows[8];  // all ones where the table has a one
  for (int row = 0; row < 8; ++row) rows[row] = 0u - static_cast<std::uint32_t>(inst.imm >> row & 1);
  write_lanes<std::uint32_t>(warp, inst.d, [=](int lane) {
    const std::uint32_t c1 = c[lane], c0 = ~c1;
    const std::uint32_t b0 = ~b[lane] & ((rows[0] & c0) | (rows[1] & c1));
    const std::uint32_t b1 = b[lane] & ((rows[2] & c0) | (rows[3] & c1));
    const std::uint32_t b2 = ~b[lane] & ((rows[4] & c0) | (rows[5] & c1));
    const std::uint32_t b3 = b[lane] & ((rows[6] & c0) | (rows[7] & c1));
    return (~a[lane] & (b0 | b1)) | (a[lane] & (b2 | b3));
  });
}

void selp(Warp& warp, const Inst& inst) {
  const std::uint32_t* a = warp.slot(inst.a);
  const std::uint32_t* b = warp.slot(inst.b);
  const std::uint32_t c = warp.predicates[inst.c] ^ (inst.not_c ? all_lanes : 0u);
  write_lanes<std::uint32_t>(warp, inst.d, [=](int lane) {
    const std::uint32_t chosen = 0u - (c >> lane & 1u);  // a mask: a choice of addresses would not become a vector
    return (a[lane] & chosen) | (b[lane] & ~chosen);
  });
}
void selp_wide(Warp& warp, const Inst& inst) {
  const Wide* a = cells<std::uint64_t>(warp, inst.a);
  const Wide* b = cells<std::uint64_t>(warp, inst.b);
  const std::uint32_t c = warp.predicates[inst.c] ^ (inst.not_c ? all_lanes : 0u);
  write_lanes<std::uint64_t>(warp, inst.d, [=](int lane) {
    const std::uint64_t chosen = 0u - std::uint64_t{c >> lane & 1u};
    return (a[lane] & chosen) | (b[lane] & ~chosen);
  });
}

template <class T>
T copy(T a) {
  return a;
}

// Whatever does not depend on the sign.
template <class T>
Handler of_bits(const Key& key) {
  const bool plain = !key.has(Modifier::sat) && !key.has(Modifier::cc);
  switch (key.op) {
    case Op::add:
      return plain ? lanewise<add<T>> : nullptr;
    case Op::sub:
      return plain ? lanewise<sub<T>> : nullptr;
    case Op::mul:
      return key.has(Modifier::lo) ? lanewise<mul_lo<T>> : nullptr;
    case Op::mad:
      return plain && key.has(Modifier::lo) ? lanewise<mad_lo<T>> : nullptr;
    case Op::and_:
      return lanewise<and_<T>>;
    case Op::or_:
      return lanewise<or_<T>>;
    case Op::xor_:
      return lanewise<xor_<T>>;
    case Op::not_:
      return lanewise<not_<T>>;
    case Op::cnot:
      return lanewise<cnot<T>>;
    case Op::shl:
      return lanewise<shl<T>>;
    case Op::neg:
      return lanewise<negate<T>>;
    default:
      return nullptr;
  }
}

template <class T>
Handler of_numbers(const Key& key) {
  switch (key.op) {
    case Op::min:
      return key.has(Modifier::relu) ? nullptr : lanewise<minimum<T>>;
    case Op::max:
      return key.has(Modifier::relu) ? nullptr : lanewise<maximum<T>>;
    case Op::shr:
      return lanewise<shr<T>>;
    case Op::abs_:
      if constexpr (std::is_signed_v<T>) return lanewise<absolute<T>>;
      return nullptr;
    default:
      return of_bits<Unsigned<T>>(key);
  }
}

template <class D, class T>
Handler of_narrow_numbers(const Key& key) {
  if (key.op == Op::mul && key.has(Modifier::wide)) return lanewise<mul_wide<D, T>>;
  if (key.op == Op::mul && key.has(Modifier::hi)) return lanewise<mul_hi<D, T>>;
  if (key.op == Op::mad && !key.has(Modifier::sat) && !key.has(Modifier::cc)) {
    if (key.has(Modifier::wide)) return lanewise<mad_wide<D, T>>;
    if (key.has(Modifier::hi)) return lanewise<mad_hi<D, T>>;
  }
  return of_numbers<T>(key);
}

}  // namespace

Handler find_integer(const Key& key) {
  if (key.op == Op::selp)
    return key.destination_bits == 64 || width_of(key.type()) == 64 || key.type() == Type::f64 ? selp_wide : selp;
  if (key.op == Op::lop3)
    return key.has(Modifier::and_) || key.has(Modifier::or_) || key.has(Modifier::xor_) ? nullptr : lop3;
  if (key.op == Op::shf) {
    if (key.has(Modifier::l)) return key.has(Modifier::wrap) ? lanewise<shf_left<true>> : lanewise<shf_left<false>>;
    return key.has(Modifier::wrap) ? lanewise<shf_right<true>> : lanewise<shf_right<false>>;
  }
  if (key.op == Op::prmt) {
    for (const Modifier mode :
         {Modifier::f4e, Modifier::b4e, Modifier::rc8, Modifier::ecl, Modifier::ecr, Modifier::rc16}) {
      if (key.has(mode)) return nullptr;
    }
    return lanewise<prmt>;
  }
  if (key.op == Op::bfi)
    return width_of(key.type()) == 64 ? lanewise<bfi<std::uint64_t>> : lanewise<bfi<std::uint32_t>>;
  if (key.op == Op::mov) {
    const bool scalar = !key.reads_special && key.destination_count == 1 && key.source_count == 1;
    if (!scalar || key.type() == Type::pred || key.type() == Type::b128) return nullptr;
    const bool wide = width_of(key.type()) == 64 || key.type() == Type::f64;
    return wide ? lanewise<copy<std::uint64_t>> : lanewise<copy<std::uint32_t>>;
  }
  switch (key.type()) {
    case Type::s16:
      return of_narrow_numbers<std::int32_t, std::int16_t>(key);
    case Type::b16:
    case Type::u16:
      return of_narrow_numbers<std::uint32_t, std::uint16_t>(key);
    case Type::s32:
      return of_narrow_numbers<std::int64_t, std::int32_t>(key);
    case Type::b32:
    case Type::u32:
      return of_narrow_numbers<std::uint64_t, std::uint32_t>(key);
    case Type::s64:
      return of_numbers<std::int64_t>(key);
    case Type::b64:
    case Type::u64:
      return of_numbers<std::uint64_t>(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
