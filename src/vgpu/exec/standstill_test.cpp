// Kernels that never end are stopped with a reason long before their budget is spent; those that take long are not.
#include "vgpu/exec/standstill.hpp"

#include <gtest/gtest.h>

#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

struct Problems final : Observer {
  std::vector<SyncProblem> seen{};
  void sync_problem(Warp&, SyncProblem problem, std::uint32_t, std::string_view) override { seen.push_back(problem); }
};

struct Ended {
  Outcome outcome{};
  std::vector<SyncProblem> problems{};
};

Ended observe(const std::string& body, std::uint32_t ctas, std::uint32_t threads, const Schedule& schedule) {
  PtxRunner runner(prologue() + body, Mode::observed);
  Problems observer;
  runner.launch.observer = &observer;
  runner.launch.schedule = schedule;
  Ended ended;
  ended.outcome = runner.run(ctas, threads);
  ended.problems = std::move(observer.seen);
  return ended;
}

std::vector<Schedule> schedules() {
  Schedule seeded{};
  seeded.seed = 7;
  return {Schedule{}, seeded};
}

void expect_standstill(const std::string& body, std::uint32_t ctas, std::uint32_t threads, SyncProblem problem) {
  for (const Schedule& schedule : schedules()) {
    SCOPED_TRACE(schedule.seed);
    const Ended ended = observe(body, ctas, threads, schedule);
    EXPECT_EQ(ended.outcome.fault.kind, Fault::Kind::deadlock) << ended.outcome.fault.message;
    EXPECT_EQ(ended.problems, std::vector<SyncProblem>{problem});
    EXPECT_LT(ended.outcome.warp_instructions, 2'000'000u) << "the budget is 50 million";
  }
}

void expect_end(const std::string& body, std::uint32_t ctas, std::uint32_t threads) {
  for (const Schedule& schedule : schedules()) {
    SCOPED_TRACE(schedule.seed);
    const Ended ended = observe(body, ctas, threads, schedule);
    EXPECT_EQ(ended.outcome.fault.kind, Fault::Kind::none) << ended.outcome.fault.message;
    EXPECT_TRUE(ended.problems.empty());
  }
}

constexpr const char* wait_for_flag = R"(
$wait:
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
)";

TEST(Standstill, AFlagThatNobodyWrites) {
  expect_standstill(std::string(wait_for_flag) + "ret;", 16, 64, SyncProblem::polling);
}

TEST(Standstill, ALoopThatAsksForNothing) {
  expect_standstill("$loop:\n  setp.ne.u64 %p1, %rd1, 0;\n  @%p1 bra $loop;\n  ret;", 4, 64, SyncProblem::endless_loop);
}

// A lock that its holder never gives back; the swap writes what stands there, or fails.
TEST(Standstill, ALockThatIsNotReleased) {
  expect_standstill(R"(
$try:
  atom.global.cas.b32 %r10, [%rd1], 0, 1;
  setp.ne.u32 %p1, %r10, 0;
  @%p1 bra $try;
  ret;)",
                    4, 32, SyncProblem::polling);
}

// Writing the same again is no progress.
TEST(Standstill, StoresThatChangeNothing) {
  expect_standstill(R"(
$wait:
  st.global.u32 [%rd2+1024], %r1;
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
  ret;)",
                    2, 32, SyncProblem::polling);
}

TEST(Standstill, OthersWaitAtABarrier) {
  expect_standstill(R"(
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra $meet;
$wait:
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
$meet:
  bar.sync 0;
  ret;)",
                    3, 96, SyncProblem::polling);
}

// Sixteen are resident: the one that would write the flag never gets a place.
TEST(Standstill, TheWriterIsNotResident) {
  expect_standstill(R"(
  setp.ne.u32 %p2, %r2, 20;
  @%p2 bra $wait;
  st.volatile.global.u32 [%rd1], 1;
  ret;
$wait:
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
  ret;)",
                    21, 32, SyncProblem::polling);
}

// CTA 3 computes for long before it writes; the others poll all the time.
TEST(Standstill, ALateWriterIsWaitedFor) {
  expect_end(R"(
  setp.ne.u32 %p2, %r2, 3;
  @%p2 bra $wait;
  mov.u32 %r11, 0;
$compute:
  add.u32 %r11, %r11, 1;
  setp.lt.u32 %p3, %r11, 30000;
  @%p3 bra $compute;
  st.volatile.global.u32 [%rd1], %r11;
  ret;
$wait:
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
  ret;)",
             8, 64);
}

// The lanes of one warp: some wait for what the others will write.
TEST(Standstill, ALateWriterInTheSameWarpIsWaitedFor) {
  expect_end(R"(
  setp.ne.u32 %p2, %r3, 5;
  @%p2 bra $wait;
  mov.u32 %r11, 0;
$compute:
  add.u32 %r11, %r11, 1;
  setp.lt.u32 %p3, %r11, 30000;
  @%p3 bra $compute;
  st.volatile.global.u32 [%rd1], %r11;
  bra $done;
$wait:
  ld.volatile.global.u32 %r10, [%rd1];
  setp.eq.u32 %p1, %r10, 0;
  @%p1 bra $wait;
$done:
  ret;)",
             1, 32);
}

TEST(Standstill, AClockEndsALoop) {
  expect_end(R"(
  mov.u64 %rd10, %clock64;
$wait:
  mov.u64 %rd11, %clock64;
  sub.s64 %rd12, %rd11, %rd10;
  mov.u64 %rd11, 0;
  setp.lt.u64 %p1, %rd12, 20000;
  mov.u64 %rd12, 0;
  @%p1 bra $wait;
  ret;)",
             2, 32);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
