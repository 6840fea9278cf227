// Patterns whose counts follow by hand from 32 banks of 4 bytes.
#include "vgpu/observe/counters/bank_conflicts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "vgpu/observe/counters/coalescing.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t all_lanes = 0xffffffffu;
using Addresses = std::array<std::uint64_t, 32>;

template <class F>
Addresses addresses(F of_lane) {
  Addresses out{};
  for (std::uint64_t lane = 0; lane < 32; ++lane) out[lane] = of_lane(lane);
  return out;
}

void expect(const Wavefronts& got, std::uint32_t total, std::uint32_t ideal) {
  EXPECT_EQ(got.total, total);
  EXPECT_EQ(got.ideal, ideal);
  EXPECT_EQ(got.conflicts(), total - ideal);
}

// Stride s in words: lanes i and j share a bank when s (i - j) is a multiple of 32, so gcd(s, 32) lanes meet in each.
TEST(BankConflicts, StridesOneToThirtyThree) {
  for (std::uint64_t stride = 1; stride <= 33; ++stride) {
    SCOPED_TRACE(stride);
    const Addresses at = addresses([&](std::uint64_t lane) { return lane * stride * 4; });
    expect(shared_wavefronts(all_lanes, at.data(), 4, SharedKind::access),
           static_cast<std::uint32_t>(std::gcd(stride, 32u)), 1);
  }
}

TEST(BankConflicts, Broadcast) {
  const Addresses one = addresses([](std::uint64_t) { return 64u; });
  expect(shared_wavefronts(all_lanes, one.data(), 4, SharedKind::access), 1, 1);
  // Two words of one bank, sixteen lanes each.
  const Addresses two = addresses([](std::uint64_t lane) { return lane < 16 ? 0u : 128u; });
  expect(shared_wavefronts(all_lanes, two.data(), 4, SharedKind::access), 2, 1);
}

TEST(BankConflicts, Bytes) {
  // Four lanes share each word: 8 words.
  const Addresses bytes = addresses([](std::uint64_t lane) { return lane; });
  expect(shared_wavefronts(all_lanes, bytes.data(), 1, SharedKind::access), 1, 1);
  const Addresses halves = addresses([](std::uint64_t lane) { return lane * 2; });
  expect(shared_wavefronts(all_lanes, halves.data(), 2, SharedKind::access), 1, 1);
}

TEST(BankConflicts, SixtyFourBits) {
  const Addresses dense = addresses([](std::uint64_t lane) { return lane * 8; });
  expect(shared_wavefronts(all_lanes, dense.data(), 8, SharedKind::access), 2, 2);
  // Stride 16 bytes: in a half warp lanes i and i + 8 meet in both banks.
  const Addresses wide = addresses([](std::uint64_t lane) { return lane * 16; });
  expect(shared_wavefronts(all_lanes, wide.data(), 8, SharedKind::access), 4, 2);
  // A row of 128 bytes per lane: all sixteen in the same two banks.
  const Addresses column = addresses([](std::uint64_t lane) { return lane * 128; });
  expect(shared_wavefronts(all_lanes, column.data(), 8, SharedKind::access), 32, 2);
  expect(shared_wavefronts(0x0000ffffu, dense.data(), 8, SharedKind::access), 1, 1);
  EXPECT_FALSE(shared_wavefronts(all_lanes, dense.data(), 8, SharedKind::access).may_be_fewer);
  auto repeated = dense;
  for (std::size_t lane = 16; lane < 32; ++lane) repeated[lane] = repeated[lane - 16];
  EXPECT_TRUE(shared_wavefronts(all_lanes, repeated.data(), 8, SharedKind::access).may_be_fewer);
}

TEST(BankConflicts, HundredTwentyEightBits) {
  const Addresses dense = addresses([](std::uint64_t lane) { return lane * 16; });
  expect(shared_wavefronts(all_lanes, dense.data(), 16, SharedKind::access), 4, 4);
  // Stride 32 bytes: of eight lanes, i and i + 4 meet.
  const Addresses wide = addresses([](std::uint64_t lane) { return lane * 32; });
  expect(shared_wavefronts(all_lanes, wide.data(), 16, SharedKind::access), 8, 4);
  // Rows padded to 144 bytes: 8 lanes step 36 words, 4 banks apart: no conflict.
  const Addresses padded = addresses([](std::uint64_t lane) { return lane * 144; });
  expect(shared_wavefronts(all_lanes, padded.data(), 16, SharedKind::access), 4, 4);
  const Addresses column = addresses([](std::uint64_t lane) { return lane * 128; });
  expect(shared_wavefronts(all_lanes, column.data(), 16, SharedKind::access), 32, 4);
}

TEST(BankConflicts, Ldmatrix) {
  // 8x8 matrices of b16 in rows of 128 bytes (64 elements): all eight rows of a phase begin in bank 0.
  const Addresses rows = addresses([](std::uint64_t lane) { return lane % 16 * 128 + lane / 16 * 16; });
  expect(shared_wavefronts(all_lanes, rows.data(), 16, SharedKind::matrix), 32, 4);
  // The usual swizzle: 16-byte chunk c of row r lies at c xor r % 8.
  const Addresses swizzled = addresses([](std::uint64_t lane) {
    const std::uint64_t row = lane % 16, chunk = lane / 16;
    return row * 128 + (chunk ^ row % 8) * 16;
  });
  expect(shared_wavefronts(all_lanes, swizzled.data(), 16, SharedKind::matrix), 4, 4);
  // Rows of 64 bytes: rows r and r + 2 meet, four deep.
  const Addresses narrow = addresses([](std::uint64_t lane) { return lane * 64; });
  expect(shared_wavefronts(all_lanes, narrow.data(), 16, SharedKind::matrix), 16, 4);
  // Padding by 16 bytes.
  const Addresses padded = addresses([](std::uint64_t lane) { return lane * (128 + 16); });
  expect(shared_wavefronts(all_lanes, padded.data(), 16, SharedKind::matrix), 4, 4);
  expect(shared_wavefronts(0x000000ffu, rows.data(), 16, SharedKind::matrix), 8, 1);
}

TEST(BankConflicts, Atomics) {
  const Addresses one = addresses([](std::uint64_t) { return 0u; });
  expect(shared_wavefronts(all_lanes, one.data(), 4, SharedKind::atomic), 32, 1);
  const Addresses dense = addresses([](std::uint64_t lane) { return lane * 4; });
  expect(shared_wavefronts(all_lanes, dense.data(), 4, SharedKind::atomic), 1, 1);
  const Addresses pairs = addresses([](std::uint64_t lane) { return lane / 2 * 4; });
  expect(shared_wavefronts(all_lanes, pairs.data(), 4, SharedKind::atomic), 2, 1);
}

struct Touched {
  std::uint32_t sectors, lines, ideal;
};

void expect(const Addresses& at, std::uint32_t lanes, std::uint32_t bytes, const Touched& wanted) {
  Coalesced got;
  coalesce(lanes, at.data(), bytes, got);
  EXPECT_EQ(got.sectors, wanted.sectors);
  EXPECT_EQ(got.lines, wanted.lines);
  EXPECT_EQ(got.ideal_sectors(), wanted.ideal);
}

TEST(Coalescing, Patterns) {
  const auto strided = [](std::uint64_t bytes) {
    return addresses([=](std::uint64_t lane) { return 4096 + lane * bytes; });
  };
  expect(strided(4), all_lanes, 4, {4, 1, 4});
  expect(strided(8), all_lanes, 8, {8, 2, 8});
  expect(strided(16), all_lanes, 16, {16, 4, 16});
  expect(strided(8), all_lanes, 4, {8, 2, 4});      // every other word
  expect(strided(32), all_lanes, 4, {32, 8, 4});    // a sector a lane
  expect(strided(128), all_lanes, 4, {32, 32, 4});  // a line a lane
  expect(strided(0), all_lanes, 4, {1, 1, 1});      // broadcast
  expect(strided(1), all_lanes, 1, {1, 1, 1});
  expect(strided(4), 0x000000ffu, 4, {1, 1, 1});
  const Addresses shifted = addresses([](std::uint64_t lane) { return 4096 + 4 + lane * 4; });
  expect(shifted, all_lanes, 4, {5, 2, 4});  // one word off: a sector and a line more
  const Addresses across = addresses([](std::uint64_t lane) { return 4096 + 24 + lane * 64; });
  expect(across, 1, 16, {2, 1, 1});  // an access over a sector's edge
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
