// shared_memory.cuh: the laws of rows in shared memory for every length, and ldmatrix by its written layout.
#include <algorithm>
#include <set>

#include "cuda/atoms/atom_kernels.hpp"

namespace flashmoe::testing {
namespace {

constexpr int most_chunks = 32, rows = 64, bank_groups = 8;  // of 16 bytes

// As shared_memory.cu has it.
struct Laws {
  int row_bytes, is_swizzled, unit_chunks, unit_rows;
  int unit_row[32], unit_chunk[32];
  unsigned offset[rows][most_chunks];
  unsigned moved[2][rows][most_chunks];
  unsigned lower[32][rows];
};

std::vector<Laws> laws_of(const runtime::Function& kernel) {
  const DeviceVector<Laws> there(most_chunks);
  launch(kernel, most_chunks, 32, there.address());
  return there.values();
}

int bank_group(unsigned offset) {
  return static_cast<int>(offset / 16 % bank_groups);
}

TEST_P(Atoms, EveryChunkHasAPlaceOfItsOwn) {
  const auto all = laws_of(kernel("shared_memory.cu", "laws"));
  for (int chunks = 1; chunks <= most_chunks; ++chunks) {
    const Laws& law = all[static_cast<std::size_t>(chunks - 1)];
    SCOPED_TRACE(chunks);
    EXPECT_GE(law.row_bytes, 16 * chunks);
    EXPECT_LE(law.row_bytes, 16 * (chunks + 1));
    std::set<unsigned> places;
    for (int row = 0; row < rows; ++row)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const unsigned offset = law.offset[row][chunk];
        EXPECT_EQ(offset % 16, 0U);
        EXPECT_EQ(static_cast<int>(offset) / law.row_bytes, row) << "a chunk stays in its row";
        EXPECT_TRUE(places.insert(offset).second) << row << ", " << chunk;
      }
  }
}

// ldmatrix reads the same chunk of 8 rows at once.
TEST_P(Atoms, TheSameChunkOf8RowsMeetsNoBankTwice) {
  const auto all = laws_of(kernel("shared_memory.cu", "laws"));
  for (int chunks = 1; chunks <= most_chunks; ++chunks) {
    const Laws& law = all[static_cast<std::size_t>(chunks - 1)];
    for (int first = 0; first < rows; first += 8)
      for (int chunk = 0; chunk < chunks; ++chunk) {
        std::set<int> groups;
        for (int row = first; row < first + 8; ++row) groups.insert(bank_group(law.offset[row][chunk]));
        EXPECT_EQ(groups.size(), 8U) << chunks << " chunks, rows from " << first << ", chunk " << chunk;
      }
  }
}

// A store of 16 bytes goes by quarters of a warp.
TEST_P(Atoms, WhatAWarpCopiesAtOnceMeetsNoBankTwice) {
  const auto all = laws_of(kernel("shared_memory.cu", "laws"));
  for (int chunks = 4; chunks <= most_chunks; chunks += 2) {
    const Laws& law = all[static_cast<std::size_t>(chunks - 1)];
    SCOPED_TRACE(chunks);
    EXPECT_EQ(law.unit_chunks * law.unit_rows, 32);
    std::set<std::pair<int, int>> pieces;
    for (int first = 0; first < 32; first += 8) {
      std::set<int> groups;
      for (int lane = first; lane < first + 8; ++lane) {
        EXPECT_LT(law.unit_row[lane], law.unit_rows);
        EXPECT_LT(law.unit_chunk[lane], law.unit_chunks);
        EXPECT_TRUE(pieces.insert({law.unit_row[lane], law.unit_chunk[lane]}).second);
        groups.insert(bank_group(law.offset[law.unit_row[lane]][law.unit_chunk[lane]]));
      }
      EXPECT_EQ(groups.size(), 8U) << "lanes from " << first;
    }
  }
}

TEST_P(Atoms, MovingOnIsTheOffsetOfALaterChunk) {
  const auto all = laws_of(kernel("shared_memory.cu", "laws"));
  for (int chunks = 2; chunks <= most_chunks; chunks += 2) {
    const Laws& law = all[static_cast<std::size_t>(chunks - 1)];
    for (int from = 0; from < 2; ++from)
      for (int row = 0; row < rows; ++row)
        for (int on = 0; from + on < chunks; on += 2)
          EXPECT_EQ(law.moved[from][row][on], law.offset[row][from + on])
              << chunks << " chunks, row " << row << ", from " << from << " on by " << on;
  }
}

TEST_P(Atoms, FurtherDownIsTheOffsetOfALaterRow) {
  const auto all = laws_of(kernel("shared_memory.cu", "laws"));
  for (int chunks = 2; chunks <= most_chunks; chunks += 2) {
    const Laws& law = all[static_cast<std::size_t>(chunks - 1)];
    for (int lane = 0; lane < 32; ++lane) {
      if (law.unit_chunk[lane] >= chunks) continue;
      for (int row = law.unit_row[lane]; row < rows; row += law.unit_rows)
        EXPECT_EQ(law.lower[lane][row - law.unit_row[lane]], law.offset[row][law.unit_chunk[lane]])
            << chunks << " chunks, lane " << lane << ", row " << row;
    }
  }
}

// Lane (g, t) holds elements 2t and 2t + 1 of row g of each matrix; transposed: element g of rows 2t and 2t + 1.
TEST_P(Atoms, LdmatrixDealsOutFragments) {
  for (const bool is_transposed : {false, true}) {
    const DeviceVector<uint32_t> to(128);
    const auto findings =
        launch(kernel("shared_memory.cu", is_transposed ? "fragments_transposed" : "fragments"), 1, 32, to.address());
    EXPECT_TRUE(findings.empty()) << findings.front();
    const auto got = to.values();
    for (uint32_t matrix = 0; matrix < 4; ++matrix)
      for (uint32_t lane = 0; lane < 32; ++lane)
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t g = lane / 4, pair = lane % 4 * 2 + half;
          const uint32_t row = matrix % 2 * 8 + (is_transposed ? pair : g);
          const uint32_t column = matrix / 2 * 8 + (is_transposed ? g : pair);
          EXPECT_EQ(got[matrix * 32 + lane] >> 16 * half & 0xffff, row * 256 + column)
              << "matrix " << matrix << ", lane " << lane << ", half " << half;
        }
  }
}

TEST_P(Atoms, SharedMemoryGivesBackWhatItGot) {
  std::vector<uint32_t> values(128);
  for (uint32_t i = 0; i < 128; ++i) values[i] = i * 0x01010101U;
  const DeviceVector<uint32_t> from(values), to(128), words(32);
  const auto findings =
      launch(kernel("shared_memory.cu", "round_trip"), 1, 32, from.address(), to.address(), words.address());
  EXPECT_TRUE(findings.empty()) << findings.front();
  EXPECT_EQ(to.values(), values);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(words.values()[lane], (lane / 4 * 4 + 3) * 3);
}

}  // namespace
}  // namespace flashmoe::testing
