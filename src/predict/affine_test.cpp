#include "predict/affine.hpp"

#include <gtest/gtest.h>

namespace flashmoe::predict {
namespace {

// 0 1, then for every block 2 3 4, then 5 6; `unrolled` blocks a round, each with its own code.
SizedPath made(std::int64_t blocks, std::int64_t unrolled = 1) {
  std::vector<std::uint32_t> path{0, 1};
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::uint32_t k = 0; k < 3; ++k) path.push_back(2 + k + 100 * static_cast<std::uint32_t>(i % unrolled));
  path.insert(path.end(), {5, 6});
  return {.path = {.warps = {{path}, {path}}}, .blocks = blocks};
}

TEST(Affine, TwoSizesGiveAnyOther) {
  for (const std::int64_t large : {3, 4, 7}) {
    const auto path = path_at(made(2), made(large), 50);
    ASSERT_TRUE(path) << path.error().to_string();
    EXPECT_EQ(path->warps, made(50).path.warps);
    EXPECT_TRUE(is_affine(made(2), made(large), made(9)));
  }
}

TEST(Affine, AnUnrolledLoopHasWholeRoundsOnly) {
  const auto path = path_at(made(2, 2), made(6, 2), 50);
  ASSERT_TRUE(path) << path.error().to_string();
  EXPECT_EQ(path->warps, made(50, 2).path.warps);
  const auto odd = path_at(made(2, 2), made(6, 2), 51);
  ASSERT_FALSE(odd);
  EXPECT_NE(odd.error().message.find("2 blocks a round"), std::string::npos);
}

TEST(Affine, WhatIsNotAffineIsSeen) {
  SizedPath other = made(9);
  other.path.warps[1].instructions[7] = 99;
  EXPECT_FALSE(is_affine(made(2), made(3), other));
  SizedPath shorter = made(3);
  shorter.path.warps[0].instructions.erase(shorter.path.warps[0].instructions.begin());
  EXPECT_FALSE(path_at(made(2), shorter, 9));
  EXPECT_FALSE(path_at(made(3), made(2), 9));
  EXPECT_FALSE(path_at(made(2), made(3), 1));
}

}  // namespace
}  // namespace flashmoe::predict
