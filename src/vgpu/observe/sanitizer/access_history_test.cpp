// Four words that are one cell, and the moments at which they part and meet again.
#include "vgpu/observe/sanitizer/access_history.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "vgpu/observe/run_watched.hpp"

namespace flashmoe::vgpu::observe {
namespace {

AccessRecord record(std::uint32_t actor, std::uint32_t clock, std::uint32_t mask = 0xf) {
  AccessRecord made;
  made.actor = actor;
  made.clock = clock;
  made.mask = mask & 0xfu;
  return made;
}

TEST(AccessHistory, RecordsAreSmall) {
  EXPECT_EQ(sizeof(AccessRecord), 16u);
  EXPECT_EQ(sizeof(Quad), 64u);
}

AccessRecord of_lane(std::uint32_t lane, std::uint32_t mask) {
  AccessRecord made = record(0, 1, mask);
  made.lane = lane & 31u;
  return made;
}

TEST(AccessHistory, KnowsTheLaneOfEachByte) {
  AccessRecord halves = of_lane(4, 0x3);
  halves.add(of_lane(5, 0xc));
  EXPECT_EQ(halves.mask, 0xfu);
  EXPECT_EQ(halves.first_lane(), 4u);
  EXPECT_EQ(halves.last_lane(), 5u);
  EXPECT_TRUE(halves.belong_to(0x3, 4));
  EXPECT_TRUE(halves.belong_to(0xc, 5));
  EXPECT_FALSE(halves.belong_to(0xf, 5));
  EXPECT_FALSE(halves.belong_to(0x6, 4));
  AccessRecord bytes = of_lane(31, 0x8);
  for (std::uint32_t lane = 28; lane < 31; ++lane) bytes.add(of_lane(lane, 1u << (lane - 28)));
  for (std::uint32_t lane = 28; lane < 32; ++lane) EXPECT_TRUE(bytes.belong_to(1u << (lane - 28), lane));
  EXPECT_EQ(bytes.first_lane(), 28u);
  EXPECT_EQ(bytes.last_lane(), 31u);
  AccessRecord shared = of_lane(4, 0x3);
  shared.add(of_lane(7, 0x2));
  EXPECT_FALSE(shared.belong_to(0x1, 4));
  EXPECT_EQ(shared.last_lane(), 7u);
  shared.add(of_lane(9, 0xc));  // once nobody knows whose a byte is, nobody will
  EXPECT_FALSE(shared.belong_to(0x4, 9));
  EXPECT_EQ(shared.last_lane(), 9u);
  AccessRecord one = of_lane(3, 0x3);
  one.add(of_lane(3, 0xc));
  EXPECT_FALSE(one.has(AccessRecord::several_lanes));
  EXPECT_TRUE(one.belong_to(0xf, 3));
}

TEST(AccessHistory, SplitGivesEachWordItsOwnReaders) {
  SharedHistory history(4, 64);
  Quad& quad = *history.find(2);
  quad.whole.write = record(0, 1);
  quad.whole.read = record(1, 2);
  history.add_readers(quad.whole)[3] = record(3, 5);
  Cell* const words = history.words(2);
  history.split(quad, words);
  EXPECT_TRUE(quad.is_split);
  for (std::uint64_t i = 0; i < words_per_quad; ++i) {
    EXPECT_EQ(words[i].write, record(0, 1));
    EXPECT_EQ(words[i].read, record(1, 2));
    EXPECT_EQ(history.readers(words[i])[3], record(3, 5));
    EXPECT_EQ(history.readers(words[i])[2].mask, 0u);
  }
  history.readers(words[1])[3] = record(3, 9);
  EXPECT_EQ(history.readers(words[0])[3], record(3, 5));
  EXPECT_EQ(history.readers(words[2])[3], record(3, 5));
}

TEST(AccessHistory, MergeNeedsFourEqualWordsWithoutReaders) {
  GlobalHistory history;
  Quad& quad = *history.find(1000);
  Cell* const words = history.words(1000);
  history.split(quad, words);
  for (std::uint64_t i = 0; i < words_per_quad; ++i) words[i].write = record(7, 3);
  words[2].write = record(7, 3, 0x3);
  history.merge(quad, words);
  EXPECT_TRUE(quad.is_split);
  words[2].write = record(7, 3);
  words[3].read = record(1, 1);
  history.merge(quad, words);
  EXPECT_TRUE(quad.is_split);
  words[3].read = {};
  history.add_readers(words[0]);
  history.merge(quad, words);
  EXPECT_TRUE(quad.is_split);
  history.drop_readers(words[0]);
  history.merge(quad, words);
  EXPECT_FALSE(quad.is_split);
  EXPECT_EQ(quad.whole.write, record(7, 3));
  EXPECT_EQ(history.pages(), 1u);
}

// Findings of a block of four warps; %r1 is the thread, %p1 to %p4 say that it is lane 0 of warp 0 to 3.
std::vector<Finding> races(std::string_view body) {
  const std::string text = R"(
  .shared .align 16 .b8 s[64];
  .reg .b32 %r<10>; .reg .pred %p<6>; .reg .b16 %h<4>;
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 32; setp.eq.u32 %p3, %r1, 64; setp.eq.u32 %p4, %r1, 96;
  mov.b16 %h1, 7;
)" + std::string(body) + "\n  ret;\n";
  return findings_of(text, 1, 128);
}

constexpr const char* write_all = "st.shared.v4.u32 [s], {%r1, %r1, %r1, %r1};\n";
constexpr const char* read_all = "ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [s];\n";

TEST(Quads, APartReadAfterAWholeWrite) {
  const std::string write = "@%p1 " + std::string(write_all);
  const auto found = races(write + "@%p2 ld.shared.u32 %r2, [s+8];");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].check, Check::racecheck);
  EXPECT_EQ(found[0].times, 1u);
  EXPECT_TRUE(races(write + "bar.sync 0;\n@%p2 ld.shared.u32 %r2, [s+8];").empty());
}

TEST(Quads, AWholeReadAfterAPartWrite) {
  const std::string byte = "@%p1 " + std::string(write_all) + "bar.sync 0;\n@%p2 st.shared.u8 [s+5], %h1;\n";
  const auto found = races(byte + "@%p3 " + read_all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].times, 1u);
  EXPECT_TRUE(races(byte + "@%p3 ld.shared.u8 %h2, [s+6];").empty());
}

TEST(Quads, AWholeAccessCountsForEachWord) {
  const auto found = races("@%p1 " + std::string(write_all) + "@%p2 " + read_all);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].times, 4u);
}

TEST(Quads, AllReadersAreRemembered) {
  const std::string reads = "@!%p4 " + std::string(read_all);
  const auto part = races(reads + "@%p4 st.shared.u32 [s+12], %r1;");
  ASSERT_EQ(part.size(), 2u);  // across warps 0 to 2, and within the last
  EXPECT_EQ(part[0].times, 3u);
  EXPECT_EQ(part[1].times, 1u);
  const auto whole = races(reads + "@%p4 " + write_all);
  ASSERT_EQ(whole.size(), 2u);
  EXPECT_EQ(whole[0].times, 12u);
  EXPECT_EQ(whole[1].times, 4u);
}

TEST(Quads, TheyMeetAgainAfterAWholeWrite) {
  const std::string parts = "@%p1 st.shared.u32 [s], %r1;\n@%p2 st.shared.u32 [s+4], %r1;\nbar.sync 0;\n@%p3 " +
                            std::string(write_all) + "bar.sync 0;\n";
  EXPECT_TRUE(races(parts + read_all).empty());
  EXPECT_FALSE(races(parts + read_all + "@%p1 " + write_all).empty());
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
