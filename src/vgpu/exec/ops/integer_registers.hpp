// Integers of 8 to 64 bits in registers of 16 to 64: cvt may read and write a register wider than its type. What is
// read is the low part; what is written is extended to the register's width by the type's sign (PTX ISA 9.4.1).
#pragma once

#include "vgpu/exec/ops/integers.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

__extension__ typedef __int128 Int128;  // NOLINT(modernize-use-using): __extension__ wants a declaration

struct IntegerRegister {
  int width = 32;  // of the type
  bool is_signed = false;
  int cell = 32;  // of the register: 16, 32, 64
};

inline IntegerRegister source_register(const Key& key) {
  const Type type = key.type();
  const int width = width_of(type);
  return {width, kind_of(type) == Kind::signed_integer, width == 64 || key.source_bits == 64 ? 64 : 32};
}
inline IntegerRegister destination_register(const Key& key) {
  const Type type = key.types[0];
  const int width = width_of(type);
  const int cell = key.destination_bits > width ? key.destination_bits : width < 16 ? 16 : width;
  return {width, kind_of(type) == Kind::signed_integer, cell};
}

inline Int128 read_integer(const Warp& warp, std::uint32_t slot, int lane, IntegerRegister from) {
  const std::uint64_t bits = from.cell == 64 ? cells<std::uint64_t>(warp, slot)[lane] : warp.slot(slot)[lane];
  const int unused = 64 - from.width;
  if (from.is_signed) return static_cast<std::int64_t>(bits << unused) >> unused;
  return static_cast<Int128>(bits << unused >> unused);
}

// The bits of a number in a register: cut to the type, extended to the register.
inline std::uint64_t register_bits(Int128 value, IntegerRegister to) {
  const int unused = 64 - to.width;
  const std::uint64_t cut = static_cast<std::uint64_t>(value) << unused;
  const std::uint64_t extended =
      to.is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(cut) >> unused) : cut >> unused;
  return to.cell == 64 ? extended : extended & ((std::uint64_t{1} << to.cell) - 1);
}
inline void write_integer(Warp& warp, std::uint32_t slot, int lane, IntegerRegister to, Int128 value) {
  if (to.cell == 64) {
    cells<std::uint64_t>(warp, slot)[lane] = register_bits(value, to);
  } else {
    warp.slot(slot)[lane] = static_cast<std::uint32_t>(register_bits(value, to));
  }
}

inline Int128 clamped(Int128 value, IntegerRegister to) {
  const int bits = to.is_signed ? to.width - 1 : to.width;
  const Int128 most = (Int128{1} << bits) - 1, least = to.is_signed ? -most - 1 : Int128{0};
  return value < least ? least : value > most ? most : value;
}

template <int Width, bool Signed, class Make>
inline Handler with_cell(int cell, Make make) {
  if (cell == 64) return make.template operator()<IntegerRegister{Width, Signed, 64}>();
  if constexpr (Width <= 32) {
    if (cell == 32) return make.template operator()<IntegerRegister{Width, Signed, 32}>();
  }
  if constexpr (Width <= 16) {
    if (cell == 16) return make.template operator()<IntegerRegister{Width, Signed, 16}>();
  }
  return nullptr;
}
template <bool Signed, class Make>
inline Handler with_width(IntegerRegister which, Make make) {
  switch (which.width) {
    case 8:
      return with_cell<8, Signed>(which.cell, make);
    case 16:
      return with_cell<16, Signed>(which.cell, make);
    case 32:
      return with_cell<32, Signed>(which.cell, make);
    default:
      return with_cell<64, Signed>(which.cell, make);
  }
}
// make<R>() with the register as a template argument.
template <class Make>
inline Handler with_register(IntegerRegister which, Make make) {
  return which.is_signed ? with_width<true>(which, make) : with_width<false>(which, make);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
