#include "vgpu/observe/sanitizer/vector_clock.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "vgpu/observe/finding.hpp"

namespace flashmoe::vgpu::observe {
namespace {

TEST(VectorClock, JoinTakesTheLaterOfEach) {
  VectorClock a{.own = {1, 5, 0}}, b{.own = {3, 2, 0}};
  a.join(b);
  EXPECT_EQ(a.own, (std::vector<std::uint32_t>{3, 5, 0}));
}

TEST(VectorClock, KnowledgeOfOtherBlocksIsSparse) {
  VectorClock a{.own = {2, 0}};
  a.join_sparse(std::make_shared<const SparseClock>(SparseClock{{1, 7}, {40, 3}}), 0);
  EXPECT_EQ(a.own, (std::vector<std::uint32_t>{2, 7}));
  EXPECT_EQ(a.of_foreign(40), 3u);
  EXPECT_EQ(a.of_foreign(41), 0u);
  VectorClock b{.own = {0, 0}};
  b.join(a);
  EXPECT_EQ(b.of_foreign(40), 3u);
  EXPECT_EQ(b.sparse(0), (SparseClock{{0, 2}, {1, 7}, {40, 3}}));
}

TEST(VectorClock, MergedClocksKeepTheLater) {
  EXPECT_EQ(merged({{1, 1}, {3, 9}}, {{1, 4}, {2, 2}, {3, 1}}), (SparseClock{{1, 4}, {2, 2}, {3, 9}}));
}

TEST(FindingLog, OncePerPlaceAndCounted) {
  FindingLog log(2);
  for (int i = 0; i < 3; ++i) {
    if (log.is_new(Check::racecheck, 7, 8)) log.add({.check = Check::racecheck, .kernel = "k", .message = "race"});
  }
  ASSERT_EQ(log.findings().size(), 1u);
  EXPECT_EQ(log.findings()[0].times, 3u);
  EXPECT_TRUE(log.is_new(Check::racecheck, 7, 9));
  log.add({});
  EXPECT_FALSE(log.is_new(Check::racecheck, 7, 10)) << "full";
  EXPECT_EQ(log.dropped(), 1u);
}

TEST(Finding, ReadsLikeASentence) {
  Finding finding{.check = Check::racecheck, .kernel = "sum", .message = "race: a write after a read"};
  finding.at = {.what = "st.shared.f32",
                .source_file = "sum.cu",
                .source_line = 12,
                .ptx_line = 40,
                .instruction = "st.shared.f32 [%r1], %f1;",
                .block = {1, 0, 0},
                .thread = {33, 0, 0}};
  finding.other = finding.at;
  finding.other->what = "a read";
  finding.other->source_line = 9;
  finding.address = 0x40;
  finding.space = "shared";
  finding.advice = "Put a barrier between them.";
  EXPECT_EQ(finding.to_text(),
            "racecheck: race: a write after a read at shared address 0x40\n"
            "  in sum at sum.cu:12 (PTX line 40: st.shared.f32 [%r1], %f1;), block (1,0,0) thread (33,0,0)\n"
            "  against a read at sum.cu:9 (PTX line 40: st.shared.f32 [%r1], %f1;), block (1,0,0) thread (33,0,0)\n"
            "  Put a barrier between them.\n");
  EXPECT_EQ(finding.to_json()["other"]["source_line"], 9);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
