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
  a.join(std::make_shared<const Message>(Message{{{1, 7}, {40, 3}}, {}}), 0);
  EXPECT_EQ(a.own, (std::vector<std::uint32_t>{2, 7}));
  EXPECT_TRUE(a.beyond->knows(40, 0, 3));
  EXPECT_FALSE(a.beyond->knows(40, 0, 4));
  EXPECT_FALSE(a.beyond->knows(41, 0, 1));
  VectorClock b{.own = {0, 0}};
  b.join(a);
  EXPECT_EQ(b.message(0).warps, (SparseClock{{0, 2}, {1, 7}, {40, 3}}));
}

TEST(VectorClock, MergedClocksKeepTheLater) {
  EXPECT_EQ(merged({{1, 1}, {3, 9}}, SparseClock{{1, 4}, {2, 2}, {3, 1}}), (SparseClock{{1, 4}, {2, 2}, {3, 9}}));
}

TEST(VectorClock, LanesAreKnownBeyondTheirWarp) {
  auto known = std::make_shared<const Message>(Message{{{5, 3}}, {{5, 0x1, 9}}});
  EXPECT_TRUE(known->knows(5, 7, 3));
  EXPECT_TRUE(known->knows(5, 0, 9));
  EXPECT_FALSE(known->knows(5, 1, 4));
  join(known, std::make_shared<const Message>(Message{{}, {{5, 0x2, 9}, {6, 0x4, 1}}}));
  EXPECT_EQ(known->lanes, (LaneClock{{5, 0x3, 9}, {6, 0x4, 1}}));
  join(known, std::make_shared<const Message>(Message{{{5, 9}}, {}}));
  EXPECT_EQ(known->lanes, (LaneClock{{6, 0x4, 1}})) << "the warp as a whole is known as far";
}

// Many of them become one, which knows at least as much.
TEST(VectorClock, LanesOfAWarpStayFew) {
  LaneClock all;
  for (std::uint32_t lane = 0; lane < 32; ++lane) all = merged(all, {{5, 1u << lane, lane + 1}});
  EXPECT_LE(all.size(), 4u);
  const Message message{{}, all};
  for (std::uint32_t lane = 0; lane < 32; ++lane) EXPECT_TRUE(message.knows(5, lane, lane + 1)) << lane;
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
