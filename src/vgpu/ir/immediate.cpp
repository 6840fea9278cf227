#include "vgpu/ir/immediate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace flashmoe::vgpu::ir {
namespace {

// To nearest even, for a format of 16 bits with this many bits of fraction.
std::uint64_t narrow(double value, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  if (std::isnan(value)) return 0x7fff;
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  // In units of the last place: a carry out of the fraction moves into the exponent by itself.
  const double units = std::nearbyint(std::ldexp(std::fabs(value), fraction_bits - exponent));
  const auto bits =
      static_cast<std::uint64_t>(units) + (static_cast<std::uint64_t>(exponent + bias - 1) << fraction_bits);
  return sign | std::min(bits, infinity);
}

std::optional<std::uint64_t> float_bits(double value, Type type) {
  switch (type) {
    case Type::f64:
    case Type::b64:
      return std::bit_cast<std::uint64_t>(value);
    case Type::f32:
    case Type::b32:
    case Type::tf32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case Type::f16:
      return narrow(value, 10);
    case Type::bf16:
      return narrow(value, 7);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::uint64_t> immediate_bits(const ptx::Operand& literal, Type type) {
  const int bits = bits_of(type);
  switch (literal.kind) {
    case ptx::Operand::Kind::integer:
      return bits >= 64 ? literal.bits : literal.bits & ((std::uint64_t{1} << bits) - 1);
    case ptx::Operand::Kind::single:
      // 0f... holds its bits wherever a register of 32 bits stands: a NaN keeps its payload.
      if (bits == 32) return literal.bits & 0xffffffffu;
      return float_bits(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(literal.bits))), type);
    case ptx::Operand::Kind::floating:
      if (bits == 64) return literal.bits;
      return float_bits(std::bit_cast<double>(literal.bits), type);
    default:
      return std::nullopt;
  }
}

}  // namespace flashmoe::vgpu::ir
