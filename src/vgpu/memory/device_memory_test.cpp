#include "vgpu/memory/device_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace flashmoe::vgpu::memory {
namespace {

std::unique_ptr<DeviceMemory> memory_of(std::uint64_t bytes) {
  return std::unique_ptr<DeviceMemory>(*DeviceMemory::create(bytes));
}

TEST(DeviceMemory, AllocationsAreZeroAlignedAndApart) {
  const auto memory = memory_of(64ull << 30);  // more than the host has: only addresses are reserved
  const std::uint64_t first = *memory->allocate(100, "first"), second = *memory->allocate(5000, "second", 65536);
  EXPECT_EQ(first % 256, 0u);
  EXPECT_EQ(second % 65536, 0u);
  EXPECT_GE(second, first + 100 + 256);
  std::memset(reinterpret_cast<void*>(first), 1, 100);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(second + 4992), 0u);
  EXPECT_EQ(memory->bytes_in_use(), 5100u);
  EXPECT_TRUE(memory->is_mapped(second, 5000));
  EXPECT_FALSE(memory->is_mapped(second + (1 << 20), 4));
  EXPECT_FALSE(memory->is_mapped(8, 4));
}

TEST(DeviceMemory, FreedRangesRestUntilNothingElseIsLeft) {
  const auto memory = memory_of(1 << 20);
  const std::uint64_t first = *memory->allocate(512 << 10, "first");
  std::memset(reinterpret_cast<void*>(first), 0xff, 512 << 10);
  ASSERT_TRUE(memory->free(first));
  EXPECT_FALSE(memory->free(first));
  EXPECT_FALSE(memory->free(first + 256));
  EXPECT_FALSE(memory->find(first)->is_live);
  bool used_again = false;
  for (int i = 0; i < 20; ++i) {
    const Result<std::uint64_t> next = memory->allocate(512 << 10, "next");
    ASSERT_TRUE(next) << next.error().message;
    used_again = used_again || *next == first;
    EXPECT_TRUE(i > 2 || !used_again);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(*next), 0u);
    ASSERT_TRUE(memory->free(*next));
  }
  EXPECT_TRUE(used_again);
  EXPECT_EQ(memory->bytes_in_use(), 0u);
}

TEST(DeviceMemory, RefusesWhatDoesNotFit) {
  const auto memory = memory_of(1 << 20);
  EXPECT_FALSE(memory->allocate(0, "nothing"));
  EXPECT_FALSE(memory->allocate((1 << 20) + 1, "too much"));
  EXPECT_FALSE(memory->allocate(16, "odd", 3));
  ASSERT_TRUE(memory->allocate(1 << 20, "all"));
  EXPECT_FALSE(memory->allocate(1, "one more"));
}

TEST(DeviceMemory, DescribesAddresses) {
  const auto memory = memory_of(1 << 20);
  const std::uint64_t address = *memory->allocate(4096, "cuMemAlloc #3");
  EXPECT_EQ(memory->describe(address + 12).substr(0, 32), "12 bytes into cuMemAlloc #3 (409");
  EXPECT_EQ(memory->describe(address + 4112).substr(0, 42), "16 bytes past the end of cuMemAlloc #3 (40");
  EXPECT_EQ(memory->describe(address - 4).substr(0, 28), "4 bytes before cuMemAlloc #3");
  ASSERT_TRUE(memory->free(address));
  EXPECT_EQ(memory->describe(address).substr(0, 30), "0 bytes into freed cuMemAlloc ");
  EXPECT_EQ(memory->describe(16), "a null pointer, or an index from one");
  EXPECT_EQ(memory->describe(1ull << 60), "not an address of this device's memory");
  // Memory of the host may well begin right beside the device's.
  EXPECT_EQ(memory->describe(memory->base() - 1), "not an address of this device's memory");
}

}  // namespace
}  // namespace flashmoe::vgpu::memory
