#include "kernels/reference/number_formats.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace flashmoe::reference {
namespace {

TEST(NumberFormats, F16ValuesFromTheStandard) {
  EXPECT_EQ(decode_f16(0x3c00), 1.0);
  EXPECT_EQ(decode_f16(0xc000), -2.0);
  EXPECT_EQ(decode_f16(0x7bff), 65504.0);
  EXPECT_EQ(decode_f16(0x0400), 0x1p-14);
  EXPECT_EQ(decode_f16(0x0001), 0x1p-24);
  EXPECT_EQ(decode_f16(0x03ff), 1023 * 0x1p-24);
  EXPECT_EQ(decode_f16(0x3555), 1365 * 0x1p-12);  // the fp16 nearest to 1/3
  EXPECT_TRUE(std::signbit(decode_f16(0x8000)));
  EXPECT_EQ(decode_f16(0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decode_f16(0x7e00)));
  EXPECT_TRUE(std::isnan(decode_f16(0xfc01)));
}

// Neighbouring bit patterns are neighbouring numbers: a wrong exponent or fraction anywhere breaks the order.
TEST(NumberFormats, F16IsMonotonicOverAllPositiveFinitePatterns) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const auto next = static_cast<uint16_t>(bits + 1);
    const int exponent = std::max(bits >> 10, 1);  // subnormals are spaced like the first normal binade
    const double gap = std::ldexp(1.0, exponent - 25);
    EXPECT_EQ(decode_f16(next) - decode_f16(bits), gap) << bits;
  }
}

TEST(NumberFormats, Bf16IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(decode_bf16(0x3f80), 1.0);
  EXPECT_EQ(decode_bf16(0x4049), 3.140625);
  EXPECT_EQ(decode_bf16(0x0001), 0x1p-133);
  EXPECT_EQ(decode_bf16(0xff80), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(decode_bf16(0x7fc0)));
}

TEST(NumberFormats, E4m3HasOneNaNAndNoInfinity) {
  EXPECT_EQ(decode_e4m3(0x00), 0.0);
  EXPECT_EQ(decode_e4m3(0x01), 0x1p-9);
  EXPECT_EQ(decode_e4m3(0x07), 7 * 0x1p-9);
  EXPECT_EQ(decode_e4m3(0x08), 0x1p-6);
  EXPECT_EQ(decode_e4m3(0x38), 1.0);
  EXPECT_EQ(decode_e4m3(0x7e), 448.0);
  EXPECT_EQ(decode_e4m3(0xb9), -1.125);
  EXPECT_TRUE(std::isnan(decode_e4m3(0x7f)) && std::isnan(decode_e4m3(0xff)));
}

TEST(NumberFormats, ReadElementTakesUnalignedArrays) {
  char bytes[9] = {};
  const float value = 1.5f;
  std::memcpy(bytes + 5, &value, sizeof value);
  EXPECT_EQ(read_element(bytes + 1, FMS_F32, 1), 1.5);
  EXPECT_EQ(read_element(bytes + 1, FMS_BF16, 3), 1.5);
}

}  // namespace
}  // namespace flashmoe::reference
