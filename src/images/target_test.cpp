#include "images/target.hpp"

#include <gtest/gtest.h>

namespace flashmoe {
namespace {

TEST(Target, RunsOnItselfAndWhatFollows) {
  EXPECT_TRUE(target_runs_on("sm_80", 80));
  EXPECT_TRUE(target_runs_on("sm_80", 120));
  EXPECT_FALSE(target_runs_on("sm_90", 89));
  EXPECT_TRUE(target_runs_on("sm_90a", 90));
  EXPECT_FALSE(target_runs_on("sm_90a", 100));
  EXPECT_TRUE(target_runs_on("sm_100f", 103));
  EXPECT_FALSE(target_runs_on("sm_103f", 100));
  EXPECT_FALSE(target_runs_on("sm_100f", 120));
  EXPECT_TRUE(target_runs_on("debug", 80));
}

TEST(Target, IsReadFromTheText) {
  EXPECT_EQ(target_of("// .target sm_1\n.version 9.0\n.target  sm_90a, debug\n.address_size 64\n"), "sm_90a");
  EXPECT_EQ(target_of(".version 8.0\n.target sm_80\r\n"), "sm_80");
  EXPECT_EQ(target_of("\n.target"), "");
  EXPECT_EQ(target_of(""), "");
}

}  // namespace
}  // namespace flashmoe
