#include "vgpu/memory/footprint.hpp"

#include <gtest/gtest.h>

namespace flashmoe::vgpu::memory {
namespace {

TEST(Footprint, ASectorIsMovedOnceEachWay) {
  const std::unique_ptr<DeviceMemory> memory(*DeviceMemory::create(1 << 20));
  const auto footprint = Footprint::create(*memory);
  ASSERT_NE(footprint, nullptr);
  using Use = Footprint::Use;
  for (int launch = 0; launch < 3; ++launch) {
    footprint->begin_launch();
    EXPECT_EQ(footprint->touch(0, 0b1111, Use::read), 4u);
    EXPECT_EQ(footprint->touch(0, 0b1111, Use::read), 0u);
    EXPECT_EQ(footprint->touch(0, 0b0110, Use::write), 2u);
    EXPECT_EQ(footprint->touch(0, 0b1111, Use::write), 2u);
    EXPECT_EQ(footprint->touch(7, 0b0101, Use::update), 4u);
    EXPECT_EQ(footprint->touch(7, 0b0111, Use::update), 2u);
    // What the launch wrote lies in the L2.
    EXPECT_EQ(footprint->touch(8, 0b0011, Use::write), 2u);
    EXPECT_EQ(footprint->touch(8, 0b1111, Use::read), 2u);
  }
}

TEST(Footprint, ARangeHasTheSectorsItsBytesLieIn) {
  for (std::uint64_t first = 0; first < 300; first += 4) {
    for (std::uint64_t bytes = 4; bytes <= 520; bytes += 36) {
      std::uint64_t sectors = 0;
      Footprint::for_each_line(first, bytes, [&](std::uint64_t line, std::uint32_t set) {
        for (std::uint32_t i = 0; i < 4; ++i) {
          const std::uint64_t begin = 128 * line + 32 * i;
          EXPECT_EQ((set >> i & 1) != 0, begin + 32 > first && begin < first + bytes) << first << " " << bytes;
          sectors += set >> i & 1;
        }
      });
      ASSERT_EQ(sectors, (first + bytes - 1) / 32 - first / 32 + 1) << first << " " << bytes;
    }
  }
}

// One of eight neighbours exactly; of lines far apart, whatever the distance, about one in eight.
TEST(Footprint, TheSampleIsFair) {
  for (std::uint64_t first = 0; first < 1 << 16; first += 8) {
    int sampled = 0;
    for (std::uint64_t line = first; line < first + 8; ++line) sampled += Footprint::is_sampled(line) ? 1 : 0;
    ASSERT_EQ(sampled, 1) << first;
  }
  for (std::uint64_t stride : {2, 3, 8, 33, 64, 100, 128, 1024, 4096, 8192}) {
    int sampled = 0;
    for (std::uint64_t i = 0; i < 4096; ++i) sampled += Footprint::is_sampled(i * stride) ? 1 : 0;
    EXPECT_GT(sampled, 512 * 3 / 4) << stride;
    EXPECT_LT(sampled, 512 * 5 / 4) << stride;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::memory
