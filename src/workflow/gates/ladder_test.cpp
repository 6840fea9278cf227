#include "workflow/gates/ladder.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace flashmoe::workflow {
namespace {

const std::vector<double> ladder{0.5, 1.0, 1.2, 1.5};

int characters(const std::string& text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

TEST(Ladder, ShowsTheIntervalAmongTheRungs) {
  const auto lines = ladder_lines(ladder, {.mean = 1.1, .lower = 1.04, .upper = 1.16});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(characters(lines[0]), 60);
  const std::size_t success = lines[0].find("┴", lines[0].find("┴") + 1);
  EXPECT_LT(success, lines[0].find("┝")) << lines[0] << " lies above the second rung";
  EXPECT_LT(lines[0].find("┝"), lines[0].find("●"));
  EXPECT_LT(lines[0].find("●"), lines[0].find("┥"));
  EXPECT_LT(lines[0].find("┥"), lines[0].rfind("┴")) << lines[0] << " lies below the last";
  for (const char* number : {"0.5", "1", "1.2", "1.5"}) EXPECT_NE(lines[1].find(number), std::string::npos) << lines[1];
}

TEST(Ladder, AFarIntervalDoesNotPressTheRungsTogether) {
  const auto lines = ladder_lines(ladder, {.mean = 1.5, .lower = 0.1, .upper = 400});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("▶"), std::string::npos) << lines[0];
  const auto unbounded =
      ladder_lines(ladder, {.mean = 1, .lower = 0.5, .upper = std::numeric_limits<double>::infinity()});
  ASSERT_EQ(unbounded.size(), 2U);
  EXPECT_EQ(characters(unbounded[0]), 60);
}

TEST(Ladder, ANarrowIntervalIsAPoint) {
  const auto lines = ladder_lines(ladder, {.mean = 1.3, .lower = 1.3, .upper = 1.3});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("●"), std::string::npos);
  EXPECT_EQ(lines[0].find("┝"), std::string::npos);
}

}  // namespace
}  // namespace flashmoe::workflow
