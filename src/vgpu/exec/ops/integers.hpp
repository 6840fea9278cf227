// Integer types as the manual names them, without the host's promotions and undefined overflows.
#pragma once

#include "vgpu/exec/ops/lanes.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <class T>
inline constexpr int width = static_cast<int>(sizeof(T)) * 8;
template <class T>
using Unsigned = std::make_unsigned_t<T>;
// Wide enough to compute in: uint16_t would become a signed int, whose product overflows.
template <class T>
using Calculated = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
VGPU_INLINE Calculated<T> as_unsigned(T x) {
  return static_cast<Calculated<T>>(static_cast<Unsigned<T>>(x));
}

enum class Kind { signed_integer, unsigned_integer, other };

constexpr Kind kind_of(Type type) {
  switch (type) {
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
      return Kind::signed_integer;
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
      return Kind::unsigned_integer;
    default:
      return Kind::other;
  }
}

constexpr int width_of(Type type) {
  switch (type) {
    case Type::s8:
    case Type::u8:
    case Type::b8:
      return 8;
    case Type::s16:
    case Type::u16:
    case Type::b16:
      return 16;
    case Type::s32:
    case Type::u32:
    case Type::b32:
      return 32;
    case Type::s64:
    case Type::u64:
    case Type::b64:
      return 64;
    default:
      return 0;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
