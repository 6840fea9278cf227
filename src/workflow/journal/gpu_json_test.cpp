#include "workflow/journal/gpu_json.hpp"

#include <gtest/gtest.h>

namespace flashmoe::workflow {
namespace {

TEST(GpuJson, SaysWhereEveryFigureStands) {
  const Json l4 = to_json(*find_gpu("l4"));
  EXPECT_EQ(l4["sm_count"]["value"], 58);
  EXPECT_EQ(l4["l2_bytes_per_clock_per_sm"], (Json{{"value", nullptr}, {"source", "unknown"}}));
  EXPECT_EQ(l4["per_clock_and_sm"]["transcendental"],
            (Json{{"value", 16.0}, {"source", "unverified"}, {"clocks_a_warp", 8.0}}));
  EXPECT_NE(l4["per_clock_and_sm"]["fp32_multiply_add"]["source"], "unverified");
  EXPECT_EQ(known_gpus().size(), all_gpus().size());
}

}  // namespace
}  // namespace flashmoe::workflow
