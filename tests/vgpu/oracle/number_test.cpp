// The oracle's arithmetic against values worked out by hand and, where the host has the same operation, against the
// host's.
#include "vgpu/oracle/number.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace flashmoe::vgpu::oracle {
namespace {

const Format f16 = format_of("f16"), bf16 = format_of("bf16"), f32 = format_of("f32"), f64 = format_of("f64"),
             e4m3 = format_of("e4m3"), e5m2 = format_of("e5m2"), tf32 = format_of("tf32");

std::uint32_t as_bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
Bits rounded(double value, const Format& format, Round round = Round::nearest_even) {
  return encode(decode(std::bit_cast<std::uint64_t>(value), f64), format, round);
}

TEST(OracleNumber, EveryHalfSurvivesDecodeAndEncode) {
  for (const Format& format : {f16, bf16})
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const Number value = decode(bits, format);
      if (!value.is_nan()) {
        ASSERT_EQ(static_cast<unsigned>(encode(value, format, Round::down)), bits);
      }
    }
}

TEST(OracleNumber, KnownEncodings) {
  EXPECT_EQ(static_cast<unsigned>(rounded(1.0, f16)), 0x3c00u);
  EXPECT_EQ(static_cast<unsigned>(rounded(65504.0, f16)), 0x7bffu);
  EXPECT_EQ(static_cast<unsigned>(rounded(65519.9, f16)), 0x7bffu);
  EXPECT_EQ(static_cast<unsigned>(rounded(65520.0, f16)), 0x7c00u);
  EXPECT_EQ(static_cast<unsigned>(rounded(65520.0, f16, Round::zero)), 0x7bffu);
  EXPECT_EQ(static_cast<unsigned>(rounded(std::ldexp(1.0, -24), f16)), 0x0001u);
  EXPECT_EQ(static_cast<unsigned>(rounded(std::ldexp(1.0, -25), f16)), 0x0000u);  // a tie goes to even
  EXPECT_EQ(static_cast<unsigned>(rounded(std::ldexp(1.5, -25), f16)), 0x0001u);
  EXPECT_EQ(static_cast<unsigned>(rounded(1.0 + std::ldexp(1.0, -8), bf16)), 0x3f80u);
  EXPECT_EQ(static_cast<unsigned>(rounded(1.0 + std::ldexp(3.0, -8), bf16)), 0x3f82u);
  EXPECT_EQ(static_cast<unsigned>(rounded(448.0, e4m3)), 0x7eu);
  EXPECT_EQ(static_cast<unsigned>(rounded(-0.001953125, e4m3)), 0x81u);  // the least subnormal, 2^-9
  EXPECT_EQ(static_cast<unsigned>(rounded(57344.0, e5m2)), 0x7bu);
  EXPECT_EQ(static_cast<unsigned>(rounded(1.0 + std::ldexp(1.0, -11), tf32, Round::nearest_away)), 0x3f802000u);
  EXPECT_TRUE(decode(0x7f, e4m3).is_nan());
  EXPECT_FALSE(decode(0x78, e4m3).is_infinite());  // 256
  EXPECT_EQ(static_cast<double>(approximate_value(decode(0x78, e4m3))), 256.0);
  EXPECT_TRUE(decode(0x7c, e5m2).is_infinite());
}

// The host's float arithmetic is IEEE with round to nearest: all operations agree on random bit patterns.
TEST(OracleNumber, AgreesWithTheHost) {
  std::mt19937 random(5);
  const auto check = [](float host, const Number& exact, const char* what, float a, float b) {
    const auto ours = static_cast<std::uint32_t>(encode(exact, f32, Round::nearest_even));
    if (std::isnan(host)) {
      ASSERT_TRUE(decode(ours, f32).is_nan()) << what << ' ' << a << ' ' << b;
    } else {
      ASSERT_EQ(ours, as_bits(host)) << what << ' ' << a << ' ' << b;
    }
  };
  for (int i = 0; i < 20000; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(random()), y = static_cast<std::uint32_t>(random());
    std::uint32_t z = static_cast<std::uint32_t>(random());
    if (i % 2 == 0) y = (x & 0x7f800000u) ^ (y & 0x80ffffffu);  // near in magnitude: cancellation
    if (i % 3 == 0) z &= 0x807fffffu;                           // subnormal
    const auto a = std::bit_cast<float>(x), b = std::bit_cast<float>(y), c = std::bit_cast<float>(z);
    const Number na = decode(x, f32), nb = decode(y, f32), nc = decode(z, f32);
    check(a + b, add(na, nb, Round::nearest_even), "add", a, b);
    check(a * b, multiply(na, nb), "mul", a, b);
    check(std::fma(a, b, c), add(multiply(na, nb), nc, Round::nearest_even), "fma", a, b);
    check(a / b, divide(na, nb), "div", a, b);
    check(std::sqrt(std::fabs(a)), square_root(decode(x & 0x7fffffffu, f32)), "sqrt", a, b);
    check(std::nearbyint(a), round_to_integer(na, Round::nearest_even), "rint", a, b);
  }
}

TEST(OracleNumber, DirectedRoundingBracketsTheValue) {
  const Number third = divide(integer(false, 1), integer(false, 3));
  EXPECT_EQ(static_cast<unsigned>(encode(third, f32, Round::down)), 0x3eaaaaaau);
  EXPECT_EQ(static_cast<unsigned>(encode(third, f32, Round::up)), 0x3eaaaaabu);
  EXPECT_EQ(static_cast<unsigned>(encode(negate(third), f32, Round::up)), 0xbeaaaaaau);
  EXPECT_EQ(static_cast<unsigned>(encode(negate(third), f32, Round::down)), 0xbeaaaaabu);
  const Number zero = add(integer(false, 1), integer(true, 1), Round::down);
  EXPECT_EQ(static_cast<unsigned>(encode(zero, f32, Round::down)), 0x80000000u);
}

}  // namespace
}  // namespace flashmoe::vgpu::oracle
