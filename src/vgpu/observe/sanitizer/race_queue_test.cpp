// Racecheck on a thread of its own: the same findings, as often and in the order of the run.
#include "vgpu/observe/sanitizer/race_queue.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vgpu/observe/run_watched.hpp"

namespace flashmoe::vgpu::observe {
namespace {

// Lane 0 of warp 0 writes a word that all read, round after round: more events than several blocks hold. A store of an
// undefined register, which another check finds while this one may lag behind, stands before or after the rounds.
std::string rounds(const std::string& before, const std::string& after_write, const std::string& after_read,
                   const std::string& at_end) {
  return R"(
  .shared .align 16 .b8 s[64];
  .reg .b32 %r<10>; .reg .b64 %rd<4>; .reg .pred %p<4>;
  ld.param.u64 %rd1, [p0];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  setp.eq.u32 %p1, %r1, 0;
)" + before +
         R"(
again:
  @%p1 st.shared.u32 [s], %r2;
)" + after_write +
         R"(
  ld.shared.u32 %r3, [s];
)" + after_read +
         R"(
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 3000;
  @%p2 bra again;
)" + at_end +
         "\n  ret;\n";
}

constexpr const char* barrier = "bar.sync 0;";
constexpr const char* undefined_store = "st.global.u32 [%rd1], %r9;";

std::vector<Finding> run(const std::string& text) {
  return findings_of(text, 2, 128);
}

TEST(RaceQueue, OrderedRoundsHaveNoFindings) {
  EXPECT_TRUE(run(rounds("", barrier, barrier, "")).empty());
}

TEST(RaceQueue, EveryRunFindsTheSame) {
  const auto found = run(rounds("", barrier, "", ""));
  const auto again = run(rounds("", barrier, "", ""));
  ASSERT_FALSE(found.empty());
  ASSERT_EQ(found.size(), again.size());
  std::uint64_t times = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].to_text(), again[i].to_text());
    times += found[i].times;
  }
  EXPECT_GT(times, 2u * 2999);  // in both blocks of threads, in every round but the first
}

TEST(RaceQueue, FindingsStandInTheOrderOfTheRun) {
  const auto late = run(rounds("", barrier, "", undefined_store));
  ASSERT_GE(late.size(), 2u);
  EXPECT_EQ(late.front().check, Check::racecheck);
  EXPECT_EQ(late.back().check, Check::initcheck);
  const auto early = run(rounds(undefined_store, barrier, "", ""));
  ASSERT_GE(early.size(), 2u);
  EXPECT_EQ(early.front().check, Check::initcheck);
  EXPECT_EQ(early.back().check, Check::racecheck);
}

// The number is known only when it runs; no check has clocks for it.
TEST(RaceQueue, ABarrierThatIsNotThereIsAFault) {
  for (const char* bar :
       {"bar.sync %r2;", "bar.arrive %r2, 64;", "bar.red.popc.u32 %r3, %r2, %p1;", "barrier.sync %r2;"}) {
    for (const char* number : {"16", "100000", "-1"}) {
      exec::PtxRunner runner(std::string(".reg .b32 %r<4>; .reg .pred %p<2>; setp.eq.u32 %p1, 0, 0;\nmov.u32 %r2, ") +
                                 number + ";\n" + bar + "\nret;",
                             exec::Mode::observed);
      Watch watch;
      runner.launch.observer = &watch;
      const exec::Outcome outcome = runner.run(2, 64);
      EXPECT_EQ(outcome.fault.kind, exec::Fault::Kind::illegal_instruction) << bar;
      EXPECT_NE(outcome.fault.message.find("there are 0 to 15"), std::string::npos) << outcome.fault.message;
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
