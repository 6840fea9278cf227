// The cubin reader on bytes made here; what real compilers write is for cuda_build_test.
#include "images/cubin.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "images/elf.hpp"

namespace flashmoe {
namespace {

TEST(Cubin, AnythingElseIsRefusedWithAReason) {
  EXPECT_FALSE(read_cubin({}));
  const std::vector<std::byte> zeros(4096);
  EXPECT_FALSE(read_cubin(zeros));
  const auto exe = read_bytes("/bin/true");
  ASSERT_TRUE(exe);
  const auto cubin = read_cubin(*exe);
  ASSERT_FALSE(cubin);
  EXPECT_NE(cubin.error().message.find("machine 62"), std::string::npos) << cubin.error().message;
}

TEST(Elf, ReadsSymbolsAndNeededLibraries) {
  const auto bytes = read_bytes("/bin/true");
  ASSERT_TRUE(bytes);
  const auto elf = read_elf(*bytes);
  ASSERT_TRUE(elf) << elf.error().to_string();
  const auto needed = elf->needed();
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
}

// Every prefix and many random damages of a real file: refused or read, never read out of bounds (asan watches).
TEST(Elf, DamagedFilesAreSurvived) {
  const auto whole = read_bytes("/bin/true");
  ASSERT_TRUE(whole);
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> place(0, whole->size() - 1);
  int still_readable = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes = *whole;
    if (i % 2 == 0) bytes.resize(place(random));
    const std::size_t tail = bytes.size() > 4096 ? bytes.size() - 4096 : 0;
    for (int damage = 0; damage < 8 && !bytes.empty(); ++damage) {
      const std::size_t header = place(random) % std::min<std::size_t>(64, bytes.size());
      bytes[damage % 2 == 0 ? header : tail + place(random) % (bytes.size() - tail)] = static_cast<std::byte>(random());
    }
    if (bytes.size() > 20) bytes[18] = static_cast<std::byte>(190);  // so that the cubin reader goes on
    static_cast<void>(read_cubin(bytes));
    if (const auto elf = read_elf(bytes)) {
      ++still_readable;
      static_cast<void>(elf->symbols(11));
      static_cast<void>(elf->needed());
    }
  }
  EXPECT_GT(still_readable, 10);
}

}  // namespace
}  // namespace flashmoe
