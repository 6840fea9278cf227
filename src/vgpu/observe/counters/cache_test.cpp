#include "vgpu/observe/counters/cache.hpp"

#include <gtest/gtest.h>

namespace flashmoe::vgpu::observe {
namespace {

Coalesced sectors(std::uint64_t line, std::uint8_t mask, bool whole = true) {
  Coalesced request;
  request.lines = 1;
  request.line[0].line = line;
  request.line[0].sectors = mask;
  for (std::uint32_t i = 0; i < 4; ++i) {
    if ((mask >> i & 1) != 0) request.line[0].bytes[i] = whole ? 0xffffffffu : 0xffu;
  }
  return request;
}

constexpr std::uint64_t small_l1_bytes = 4 * 128;  // one set of four lines

MemoryModel small() {
  MemoryModel::Shape shape;
  shape.sms = 2;
  shape.l1_bytes = small_l1_bytes;
  shape.l1_ways = 4;
  shape.l2_bytes = 16 * 128;  // one set of sixteen
  shape.l2_ways = 16;
  return MemoryModel(shape);
}

TEST(Cache, SectorsOfALineAreFilledOneByOne) {
  SectorCache cache(4 * 128, 4);
  EXPECT_EQ(cache.touch(7, 0b0001, false).hits, 0);
  EXPECT_EQ(cache.touch(7, 0b0011, false).hits, 0b0001);
  EXPECT_EQ(cache.touch(7, 0b0111, false).hits, 0b0011);
}

TEST(Cache, TheLeastRecentlyUsedLineGoes) {
  SectorCache cache(2 * 128, 2);
  cache.touch(1, 0xf, false);
  cache.touch(2, 0xf, false);
  cache.touch(1, 0xf, false);
  cache.touch(3, 0xf, false);  // 2 goes
  EXPECT_EQ(cache.touch(1, 0xf, false).hits, 0xf);
  EXPECT_EQ(cache.touch(2, 0xf, false).hits, 0);
}

TEST(Cache, DirtySectorsAreWrittenBackWhenTheyGo) {
  SectorCache cache(2 * 128, 2);
  cache.touch(1, 0b0011, true);
  cache.touch(2, 0xf, false);
  EXPECT_EQ(cache.touch(3, 0xf, false).evicted_dirty, 2u);
}

TEST(Cache, LoadsGoThroughBothLevels) {
  MemoryModel model = small();
  model.launch_begins(true, small_l1_bytes);
  model.request(0, MemoryModel::Kind::load, sectors(1, 0xf));
  model.request(0, MemoryModel::Kind::load, sectors(1, 0xf));  // L1
  model.request(1, MemoryModel::Kind::load, sectors(1, 0xf));  // another SM: L2
  const MemoryTraffic traffic = model.traffic();
  EXPECT_EQ(traffic.l1_sectors, 12u);
  EXPECT_EQ(traffic.l1_hits, 4u);
  EXPECT_EQ(traffic.l2_sectors_read, 8u);
  EXPECT_EQ(traffic.l2_hits, 4u);
  EXPECT_EQ(traffic.dram_sectors_read, 4u);
  EXPECT_EQ(traffic.dram_sectors_written, 0u);
}

TEST(Cache, WholeSectorsAreWrittenWithoutBeingFetched) {
  MemoryModel model = small();
  model.launch_begins(true, small_l1_bytes);
  model.request(0, MemoryModel::Kind::store, sectors(1, 0xf));
  EXPECT_EQ(model.traffic().dram_sectors_read, 0u);
  EXPECT_EQ(model.traffic().dirty_at_end, 4u);
  model.request(0, MemoryModel::Kind::store, sectors(2, 0b1, false));
  EXPECT_EQ(model.traffic().dram_sectors_read, 1u);
}

TEST(Cache, AStoreDropsTheSectorFromL1) {
  MemoryModel model = small();
  model.launch_begins(true, small_l1_bytes);
  model.request(0, MemoryModel::Kind::load, sectors(1, 0xf));
  model.request(0, MemoryModel::Kind::store, sectors(1, 0b1));
  model.request(0, MemoryModel::Kind::load, sectors(1, 0xf));
  EXPECT_EQ(model.traffic().l1_hits, 3u);
}

TEST(Cache, WarmL2KeepsWhatColdForgets) {
  MemoryModel model = small();
  for (const bool cold : {true, false}) {
    model.launch_begins(cold, small_l1_bytes);
    model.request(0, MemoryModel::Kind::load_past_l1, sectors(1, 0xf));
    EXPECT_EQ(model.traffic().dram_sectors_read, cold ? 4u : 0u);
  }
}

TEST(Cache, L1IsAsLargeAsEachLaunchLeavesIt) {
  MemoryModel model = small();
  for (const std::uint64_t lines : {4u, 8u, 4u}) {
    model.launch_begins(true, lines * 128);
    for (int round = 0; round < 2; ++round)
      for (std::uint64_t line = 0; line < 8; ++line) model.request(0, MemoryModel::Kind::load, sectors(line, 0xf));
    EXPECT_EQ(model.traffic().l1_hits > 0, lines == 8) << lines;  // some of them, as lines fall into sets
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
