#include "vgpu/nvml/settings.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace flashmoe::vgpu::nvml {
namespace {

TEST(NvmlSettings, AreReadAsWritten) {
  const auto read = parse_settings(
      "throttle=power,thermal; other_process=4242:1024;other_process=7\n"
      "temperature=84;unsupported=power,utilization;driver=525.60.13;ecc=on;mig=off");
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->reasons, 0x24U);
  EXPECT_TRUE(read->is_throttled);
  ASSERT_EQ(read->others.size(), 2U);
  EXPECT_EQ(read->others[0].pid, 4242U);
  EXPECT_EQ(read->others[0].memory_bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(read->others[1].memory_bytes, 0U);
  EXPECT_EQ(read->temperature_celsius, 84U);
  EXPECT_TRUE(read->unsupported.contains("utilization"));
  EXPECT_EQ(read->driver, "525.60.13");
  EXPECT_EQ(read->ecc, true);
  EXPECT_EQ(read->mig, false);
  EXPECT_FALSE(read->persistence);
}

TEST(NvmlSettings, IdleCardsAndSetClocksAreNotThrottled) {
  const auto read = parse_settings("throttle=idle,application");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->reasons, 3U);
  EXPECT_FALSE(read->is_throttled);
}

TEST(NvmlSettings, EveryMistakeIsNamed) {
  for (const char* text :
       {"throttle", "throttle=heat", "other_process=x:1", "other_process=1:x", "other_process=1:99999999999",
        "temperature=-1", "temperature=warm", "temperature=4294967296", "unsupported=weather", "driver=new",
        "driver=", "ecc=yes", "fault=none", "colour=blue", "=1"}) {
    const auto read = parse_settings(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().message.find(text), std::string::npos) << read.error().message;
    EXPECT_FALSE(read.error().fix.empty());
  }
}

// Whatever is written there: an answer, and what was read is within its bounds.
TEST(NvmlSettings, AnyTextIsAnswered) {
  const std::string pieces[] = {"throttle", "=",           "power", ",",    ";",    "\n",         "other_process",
                                ":",        "4242",        "-1",    " ",    "@",    "driver",     "525.60",
                                "fault",    "temperature", "lost",  "\xff", "1e99", "unsupported"};
  std::mt19937 random(42);
  int good = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const auto read = parse_settings(text);
    if (!read) {
      EXPECT_FALSE(read.error().message.empty());
      continue;
    }
    ++good;
    EXPECT_LE(read->reasons, 0x7ffU);
    EXPECT_LE(read->temperature_celsius.value_or(0), 100000U);
  }
  EXPECT_GT(good, 100) << "nothing but mistakes was tried";
}

}  // namespace
}  // namespace flashmoe::vgpu::nvml
