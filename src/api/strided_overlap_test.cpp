// The search against counting every byte, and on the layouts that people have.
#include "api/strided_overlap.hpp"

#include <gtest/gtest.h>

#include <bitset>
#include <chrono>
#include <random>

namespace flashmoe::api {
namespace {

using Bytes = std::bitset<2048>;  // the addresses that are drawn below end before

Bytes bytes_of(const StridedBytes& t) {
  Bytes bytes;
  const auto& [a, b, c, d] = t.axes;
  for (int64_t i = 0; i < a.count; ++i)
    for (int64_t j = 0; j < b.count; ++j)
      for (int64_t k = 0; k < c.count; ++k)
        for (int64_t l = 0; l < d.count; ++l)
          for (int64_t x = 0; x < t.run_bytes; ++x)
            bytes.set(t.base + static_cast<std::uintptr_t>(i * a.stride_bytes + j * b.stride_bytes +
                                                           k * c.stride_bytes + l * d.stride_bytes + x));
  return bytes;
}

TEST(StridedOverlap, AgreesWithCountingEveryByte) {
  std::mt19937 random(3);
  const auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<unsigned>(limit)); };
  const auto drawn = [&] {
    StridedBytes t{static_cast<std::uintptr_t>(1000 + below(120)), 1 + below(6)};
    for (StridedAxis& axis : t.axes) axis = {below(20) == 0 ? 0 : 1 + below(4), below(40)};
    return t;
  };
  int common = 0;
  constexpr int rounds = 20'000;
  for (int round = 0; round < rounds; ++round) {
    const StridedBytes a = drawn(), b = drawn();
    const Bytes of_a = bytes_of(a), of_b = bytes_of(b);
    const bool expected = (of_a & of_b).any();
    common += expected ? 1 : 0;
    ASSERT_EQ(have_common_bytes(a, b), expected) << round;
    ASSERT_EQ(have_common_bytes(b, a), expected) << round;
    if (of_a.any()) {
      ASSERT_TRUE(of_a.test(a.end() - 1)) << round;
      ASSERT_TRUE((of_a >> a.end()).none()) << round;
    }
  }
  EXPECT_GT(common, rounds / 10);
  EXPECT_LT(common, rounds * 9 / 10);
}

// (B, S, slots, H, D) of two bytes: slot `slot` of it, as (B, H, S, D).
StridedBytes slot_of(std::uintptr_t buffer, int64_t slots, int64_t slot, int64_t b, int64_t h, int64_t s, int64_t d) {
  const int64_t row = h * d * 2;
  return {buffer + static_cast<std::uintptr_t>(slot * row),
          d * 2,
          {{b, s * slots * row}, {h, d * 2}, {s, slots * row}, {1, 0}}};
}

TEST(StridedOverlap, SlotsOfAPackedBufferAreApart) {
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      const StridedBytes a = slot_of(1 << 20, 4, i, 8, 32, 4096, 128), b = slot_of(1 << 20, 4, j, 8, 32, 4096, 128);
      EXPECT_EQ(have_common_bytes(a, b), i == j);
      EXPECT_EQ(a.is_same(b), i == j);
    }
  }
}

TEST(StridedOverlap, LayoutsThatDifferMeet) {
  // (B, H, S, D) over the buffer of (B, S, H, D), and one that begins a row late.
  const StridedBytes bhsd{4096, 128, {{2, 64 * 32 * 128}, {32, 64 * 128}, {64, 128}, {1, 0}}};
  StridedBytes bshd{4096, 128, {{2, 64 * 32 * 128}, {32, 128}, {64, 32 * 128}, {1, 0}}};
  EXPECT_TRUE(have_common_bytes(bhsd, bshd));
  EXPECT_FALSE(bhsd.is_same(bshd));
  bshd.base += 2 * 64 * 32 * 128 - 128;
  EXPECT_TRUE(have_common_bytes(bhsd, bshd));
  bshd.base += 128;
  EXPECT_FALSE(have_common_bytes(bhsd, bshd));
}

// Even against odd rows, with steps that have nothing else in common.
TEST(StridedOverlap, ParityIsSeenAtOnce) {
  const StridedBytes even{0, 64, {{1000, 128 * 6}, {1000, 128 * 10}, {1000, 128 * 14}, {1, 0}}};
  StridedBytes odd{64, 64, {{1000, 128 * 22}, {1000, 128 * 26}, {1000, 128 * 34}, {1, 0}}};
  EXPECT_FALSE(have_common_bytes(even, odd));
  odd.base += 129;
  EXPECT_TRUE(have_common_bytes(even, odd));
}

TEST(StridedOverlap, ASearchThatDoesNotEndIsAnOverlap) {
  // Knapsacks of large numbers without a common divisor.
  const StridedBytes a{0, 1, {{1 << 20, 1'000'003}, {1 << 20, 1'000'033}, {1 << 20, 1'000'037}, {1 << 20, 1'000'039}}};
  const StridedBytes b{1, 1, {{1 << 20, 1'000'081}, {1 << 20, 1'000'099}, {1 << 20, 1'000'117}, {1 << 20, 1'000'121}}};
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(have_common_bytes(a, b));
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
}

}  // namespace
}  // namespace flashmoe::api
