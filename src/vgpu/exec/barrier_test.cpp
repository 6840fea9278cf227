#include <gtest/gtest.h>

#include <string>

#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

TEST(Barrier, ReversesThroughSharedMemory) {
  PtxRunner runner(prologue() + R"(
  .shared .align 4 .b8 box[1024];
  mov.u32 %r10, box; shl.b32 %r11, %r1, 2; add.s32 %r12, %r10, %r11; st.shared.u32 [%r12], %r1;
  bar.sync 0;
  sub.s32 %r13, 255, %r1; shl.b32 %r13, %r13, 2; add.s32 %r14, %r10, %r13; ld.shared.u32 %r15, [%r14];
  st.global.u32 [%rd2], %r15; ret;)");
  for (const std::uint64_t seed : {0, 1, 2}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(3, 256).fault.message, "");
    for (std::uint32_t i = 0; i < 3 * 256; ++i) {
      ASSERT_EQ(runner.at(i), 255 - i % 256);
    }
  }
}

// Warp 0 fills a box that warp 1 empties, ten times, with one barrier for "full" and one for "empty".
TEST(Barrier, ProducerAndConsumerByNamedBarriers) {
  PtxRunner runner(prologue() + R"(
  .shared .b32 box;
  mov.u32 %r10, 0; mov.u32 %r11, 0;
  setp.ge.u32 %p1, %r1, 32; @%p1 bra CONSUMER;
PRODUCE: setp.eq.u32 %p2, %r10, 0; @%p2 bra FIRST; bar.sync 2, 64;
FIRST: st.shared.u32 [box], %r10; bar.arrive 1, 64;
  add.s32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 10; @%p3 bra PRODUCE;
  ret;
CONSUMER: bar.sync 1, 64; ld.shared.u32 %r12, [box]; mad.lo.s32 %r11, %r11, 3, %r12;
  add.s32 %r10, %r10, 1; setp.eq.u32 %p3, %r10, 10; @%p3 bra END;
  bar.arrive 2, 64; bra.uni CONSUMER;
END: st.global.u32 [%rd2], %r11; ret;)");
  std::uint32_t expected = 0;
  for (std::uint32_t i = 0; i < 10; ++i) {
    expected = expected * 3 + i;
  }
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(1, 64).fault.message, "");
    EXPECT_EQ(runner.at(32), expected);
  }
}

TEST(Barrier, ExitedWarpsAndLanesAreNotWaitedFor) {
  // Warps 2 and 3 exit at once, and so do the upper lanes of warp 1.
  PtxRunner runner(prologue() + R"(
  setp.ge.u32 %p1, %r1, 40; @%p1 exit;
  bar.sync 0; st.global.u32 [%rd2], 1; ret;)");
  for (const std::uint64_t seed : {0, 1, 2}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(2, 128).fault.message, "");
    for (std::uint32_t i = 0; i < 128; ++i) {
      EXPECT_EQ(runner.at(i), i < 40 ? 1u : 0u);
    }
  }
}

TEST(Barrier, ReductionOverAllThreads) {
  PtxRunner runner(prologue() + R"(
  setp.lt.u32 %p1, %r1, 50;
  bar.red.popc.u32 %r10, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, %p1;
  selp.u32 %r11, 1000, 0, %p2; selp.u32 %r12, 2000, 0, %p3;
  add.s32 %r10, %r10, %r11; add.s32 %r10, %r10, %r12;
  st.global.u32 [%rd2], %r10; ret;)");
  ASSERT_EQ(runner.run(1, 96).fault.message, "");
  EXPECT_EQ(runner.at(0), 2050u);
  EXPECT_EQ(runner.at(95), 2050u);
  ASSERT_EQ(runner.run(1, 40).fault.message, "");
  EXPECT_EQ(runner.at(39), 3040u);
}

TEST(Barrier, ACountThatNobodyReachesIsADeadlock) {
  PtxRunner runner(prologue() + "bar.sync 3, 128; ret;");
  const Outcome outcome = runner.run(1, 64);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::deadlock);
  EXPECT_NE(outcome.fault.message.find("barrier 3"), std::string::npos) << outcome.fault.message;
}

TEST(Barrier, MbarrierPhases) {
  // 64 threads arrive; all see the phase end, twice.
  PtxRunner runner(prologue() + R"(
  .shared .align 8 .b64 gate; .shared .b32 box;
  mov.u32 %r20, gate; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r20], 64;
READY: bar.sync 0;
  setp.ne.u32 %p2, %r1, 63; @%p2 bra FIRST; st.shared.u32 [box], 5;
FIRST: mbarrier.arrive.shared.b64 %rd10, [%r20];
TRY: mbarrier.try_wait.shared.b64 %p3, [%r20], %rd10; @!%p3 bra TRY;
  ld.shared.u32 %r10, [box];
  mbarrier.arrive.shared.b64 %rd10, [%r20];
AGAIN: mbarrier.test_wait.parity.shared.b64 %p3, [%r20], 1; @!%p3 bra AGAIN;
  st.global.u32 [%rd2], %r10; ret;)");
  for (const std::uint64_t seed : {0, 1, 2}) {
    runner.launch.schedule.seed = seed;
    ASSERT_EQ(runner.run(2, 64).fault.message, "");
    for (std::uint32_t i = 0; i < 128; ++i) {
      ASSERT_EQ(runner.at(i), 5u);
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
