#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

TEST(Flow, NestedBranchesMeetAgain) {
  // lane < 16: (lane < 8 ? 1 : 2) else (odd ? 3 : 4); then the number of lanes that are together.
  PtxRunner runner(prologue() + R"(
  setp.ge.u32 %p1, %r3, 16; @%p1 bra HIGH;
  setp.ge.u32 %p2, %r3, 8; @%p2 bra EIGHT;
  mov.u32 %r10, 1; bra.uni LOWDONE;
EIGHT: mov.u32 %r10, 2;
LOWDONE: bra.uni DONE;
HIGH: and.b32 %r11, %r3, 1; setp.eq.u32 %p3, %r11, 0; @%p3 bra EVEN;
  mov.u32 %r10, 3; bra.uni HIGHDONE;
EVEN: mov.u32 %r10, 4;
HIGHDONE: add.s32 %r10, %r10, 0;
DONE: activemask.b32 %r12; popc.b32 %r12, %r12; mad.lo.s32 %r10, %r12, 100, %r10;
  st.global.u32 [%rd2], %r10; ret;)");
  ASSERT_EQ(runner.run(2, 64).fault.message, "");
  for (std::uint32_t i = 0; i < 128; ++i) {
    const std::uint32_t lane = i % 32;
    EXPECT_EQ(runner.at(i), 3200 + (lane < 8 ? 1 : lane < 16 ? 2 : lane % 2 != 0 ? 3 : 4)) << i;
  }
}

TEST(Flow, LoopsThatLanesLeaveOneByOne) {
  PtxRunner runner(prologue() + R"(
  mov.u32 %r10, 0; mov.u32 %r11, 0;
LOOP: add.s32 %r10, %r10, %r11;
  setp.eq.u32 %p1, %r11, 20; @%p1 bra OUT;
  add.s32 %r11, %r11, 1; setp.le.u32 %p2, %r11, %r3; @%p2 bra LOOP;
OUT: activemask.b32 %r12; popc.b32 %r12, %r12; mad.lo.s32 %r10, %r12, 1000, %r10;
  st.global.u32 [%rd2], %r10; ret;)");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t last = std::min(lane, 20u);
    EXPECT_EQ(runner.at(lane), 32000 + last * (last + 1) / 2) << lane;
  }
}

// Every lane takes the lock in turn; a machine that made them wait at the loop's end for each other would hang.
TEST(Flow, SpinLockInsideOneWarp) {
  const std::string body = prologue() + R"(
TAKE: atom.global.cas.b32 %r10, [%rd1], 0, 1; setp.ne.u32 %p1, %r10, 0; @%p1 bra TAKE;
  ld.volatile.global.u32 %r11, [%rd1+4]; add.s32 %r11, %r11, 1; st.volatile.global.u32 [%rd1+4], %r11;
  membar.gl;
  atom.global.exch.b32 %r12, [%rd1], 0; ret;)";
  for (const std::uint64_t seed : {0, 1, 2}) {
    PtxRunner runner(body);
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(6, 64).fault.message, "") << seed;
    EXPECT_EQ(runner.at(1), 6u * 64) << seed;
  }
}

TEST(Flow, CtasWaitForEachOther) {
  // A grid barrier by counter, then every block reads what the next block wrote before it.
  PtxRunner runner(prologue() + R"(
  setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT;
  mul.wide.u32 %rd4, %r2, 4; add.s64 %rd5, %rd1, %rd4;
  add.s32 %r10, %r2, 7; st.global.u32 [%rd5+1024], %r10; membar.gl;
  atom.global.add.u32 %r11, [%rd1], 1;
SPIN: ld.volatile.global.u32 %r12, [%rd1]; setp.lt.u32 %p2, %r12, 12; @%p2 bra SPIN;
WAIT: bar.sync 0;
  add.s32 %r13, %r2, 1; rem.u32 %r13, %r13, 12; mul.wide.u32 %rd4, %r13, 4; add.s64 %rd5, %rd1, %rd4;
  ld.global.u32 %r14, [%rd5+1024]; st.global.u32 [%rd2+4096], %r14; ret;)");
  for (const std::uint64_t seed : {0, 5}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(12, 64).fault.message, "");
    for (std::uint32_t i = 0; i < 12 * 64; ++i) {
      ASSERT_EQ(runner.at(1024 + i), (i / 64 + 1) % 12 + 7) << i;
    }
  }
}

TEST(Flow, IndirectBranch) {
  PtxRunner runner(prologue() + R"(
  and.b32 %r10, %r3, 3;
  ts: .branchtargets A, B, C, D;
  brx.idx %r10, ts;
A: mov.u32 %r11, 10; bra.uni END;
B: mov.u32 %r11, 11; bra.uni END;
C: mov.u32 %r11, 12; bra.uni END;
D: mov.u32 %r11, 13;
END: activemask.b32 %r12; popc.b32 %r12, %r12; mad.lo.s32 %r11, %r12, 100, %r11;
  st.global.u32 [%rd2], %r11; ret;)");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(runner.at(lane), 3210 + lane % 4);
  }
}

TEST(Flow, RecursionThroughCall) {
  PtxRunner runner(R"(
.func (.param .b32 r) fib(.param .b32 n)
{
  .reg .b32 %r<10>; .reg .pred %p<3>;
  ld.param.u32 %r1, [n];
  setp.gt.u32 %p1, %r1, 1; @%p1 bra DEEP;
  st.param.b32 [r], %r1; ret;
DEEP: sub.s32 %r2, %r1, 1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }
  sub.s32 %r2, %r1, 2;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }
  add.s32 %r5, %r3, %r4; st.param.b32 [r], %r5; ret;
}
.visible .entry k(.param .u64 p0, .param .u64 p1) {)" +
                   prologue() + R"(
  rem.u32 %r10, %r3, 11;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r10; call.uni (b), fib, (a); ld.param.b32 %r11, [b]; }
  activemask.b32 %r12; popc.b32 %r12, %r12; mad.lo.s32 %r11, %r12, 1000, %r11;
  st.global.u32 [%rd2], %r11; ret;
})");
  for (const std::uint64_t seed : {0, 3}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(1, 32).fault.message, "");
    const std::vector<std::uint32_t> fib{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55};
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(runner.at(lane), 32000 + fib[lane % 11]) << lane;
    }
  }
}

TEST(Flow, EndlessRecursionOverflows) {
  PtxRunner runner(R"(
.func deep(.param .b32 n) { .reg .b32 %r<4>; .local .b8 room[64];
  { .param .b32 a; st.param.b32 [a], 1; call.uni deep, (a); } ret; }
.visible .entry k(.param .u64 p0, .param .u64 p1) {
  { .param .b32 a; st.param.b32 [a], 1; call.uni deep, (a); } ret; })");
  EXPECT_EQ(runner.run(1, 32).fault.kind, Fault::Kind::stack_overflow);
}

TEST(Flow, CallsThroughPointersByLane) {
  PtxRunner runner(R"(
.func (.param .b32 r) twice(.param .b32 n) { .reg .b32 %r<4>; ld.param.u32 %r1, [n]; add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) square(.param .b32 n) { .reg .b32 %r<4>; ld.param.u32 %r1, [n]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 p0, .param .u64 p1) {)" +
                   prologue() + R"(
  mov.u64 %rd10, twice; mov.u64 %rd11, square;
  and.b32 %r10, %r3, 1; setp.eq.u32 %p1, %r10, 0; selp.b64 %rd12, %rd10, %rd11, %p1;
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r3;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  call (b), %rd12, (a), proto; ld.param.b32 %r11, [b]; }
  activemask.b32 %r12; popc.b32 %r12, %r12; mad.lo.s32 %r11, %r12, 10000, %r11;
  st.global.u32 [%rd2], %r11; ret;
})");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(runner.at(lane), 320000 + (lane % 2 == 0 ? 2 * lane : lane * lane)) << lane;
  }
}

TEST(Flow, ShuffleWaitsForLanesThatComeLater) {
  // The lanes part without meeting before the shuffle; the mask brings them together.
  PtxRunner runner(prologue() + R"(
  mov.u32 %r10, %r3; setp.lt.u32 %p1, %r3, 16; @%p1 bra LOW;
  mul.lo.s32 %r10, %r10, 3; add.s32 %r10, %r10, 1;
LOW: shfl.sync.bfly.b32 %r11, %r10, 16, 31, -1;
  st.global.u32 [%rd2], %r11; ret;)");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(runner.at(lane), lane < 16 ? (lane + 16) * 3 + 1 : lane - 16);
  }
}

TEST(Flow, WarpBarriersAtDifferentPlacesMeet) {
  PtxRunner runner(prologue() + R"(
  .shared .b32 box;
  setp.lt.u32 %p1, %r3, 16; @%p1 bra LOW;
  setp.ne.u32 %p2, %r3, 31; mov.u32 %r10, 77; @!%p2 st.shared.u32 [box], %r10;
  bar.warp.sync -1; mov.u32 %r11, 1; bra.uni END;
LOW: bar.warp.sync -1; ld.shared.u32 %r11, [box];
END: st.global.u32 [%rd2], %r11; ret;)");
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(1, 32).fault.message, "");
    EXPECT_EQ(runner.at(0), 77u);
    EXPECT_EQ(runner.at(31), 1u);
  }
}

TEST(Flow, MaskWithALaneThatNeverComesIsADeadlock) {
  PtxRunner runner(prologue() + R"(
  setp.lt.u32 %p1, %r3, 16; @%p1 bra LOW;
  bar.warp.sync 0xffff0001; ret;
LOW: bar.sync 0; ret;)");
  const Outcome outcome = runner.run(1, 32);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::deadlock);
  EXPECT_NE(outcome.fault.message.find("0xffff0001"), std::string::npos) << outcome.fault.message;
}

TEST(Flow, BudgetEndsAHungKernelWhereItHung) {
  for (const std::uint64_t seed : {0, 9}) {
    PtxRunner runner(prologue() + R"(
SPIN: ld.volatile.global.u32 %r10, [%rd1]; setp.eq.u32 %p1, %r10, 0; @%p1 bra SPIN; ret;)");
    runner.launch.instruction_budget = 1'000'000;
    runner.launch.schedule.seed = seed;
    const Outcome outcome = runner.run(3, 64);
    EXPECT_EQ(outcome.fault.kind, Fault::Kind::timeout);
    EXPECT_NE(outcome.fault.message.find("PTX line"), std::string::npos) << outcome.fault.message;
  }
}

TEST(Flow, TrapAndExit) {
  PtxRunner trapping(prologue() + "setp.eq.u32 %p1, %r3, 5; @%p1 trap; ret;");
  const Outcome outcome = trapping.run(1, 32);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::trap);
  EXPECT_EQ(outcome.fault.thread.x, 5u);
  PtxRunner leaving(prologue() + "setp.lt.u32 %p1, %r3, 5; @%p1 exit; st.global.u32 [%rd2], 1; ret;");
  ASSERT_EQ(leaving.run(1, 40).fault.message, "");
  for (std::uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(leaving.at(i), i % 32 < 5 ? 0u : 1u);
  }
  EXPECT_EQ(leaving.at(40), 0u);  // lanes that do not exist do nothing
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
