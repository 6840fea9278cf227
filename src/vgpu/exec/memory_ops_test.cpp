#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/run_ptx.hpp"

namespace flashmoe::vgpu::exec {
namespace {

TEST(Memory, LoadsWidenByTheirSign) {
  PtxRunner runner(prologue() + R"(
  mov.u32 %r10, 0x8fe180f3; st.global.u32 [%rd1], %r10;
  ld.global.s8 %r11, [%rd1]; st.global.u32 [%rd1+16], %r11;
  ld.global.u8 %r11, [%rd1]; st.global.u32 [%rd1+20], %r11;
  ld.global.s16 %r11, [%rd1+2]; st.global.u32 [%rd1+24], %r11;
  ld.global.s32 %rd10, [%rd1]; st.global.u64 [%rd1+32], %rd10;
  ld.global.s8 %h1, [%rd1]; cvt.u32.u16 %r11, %h1; st.global.u32 [%rd1+40], %r11;
  ld.global.u32 %rd10, [%rd1]; st.global.u64 [%rd1+48], %rd10;
  st.global.u8 [%rd1+56], %r10; ret;)");
  ASSERT_EQ(runner.run(1, 1).fault.message, "");
  EXPECT_EQ(runner.at(4), 0xfffffff3u);
  EXPECT_EQ(runner.at(5), 0xf3u);
  EXPECT_EQ(runner.at(6), 0xffff8fe1u);
  EXPECT_EQ(runner.at<std::uint64_t>(4), 0xffffffff8fe180f3u);
  EXPECT_EQ(runner.at(10), 0xfff3u);
  EXPECT_EQ(runner.at<std::uint64_t>(6), 0x8fe180f3u);
  EXPECT_EQ(runner.at(14), 0xf3u);
}

TEST(Memory, VectorsAndEveryGenericWindow) {
  PtxRunner runner(prologue() + R"(
  .shared .align 16 .b8 box[512]; .local .align 16 .b8 own[32];
  mov.u32 %r20, box; shl.b32 %r21, %r3, 4; add.s32 %r20, %r20, %r21;
  add.s32 %r11, %r3, 100; add.s32 %r12, %r3, 200; add.s32 %r13, %r3, 300;
  st.shared.v4.u32 [%r20], {%r3, %r11, %r12, %r13};
  cvt.u64.u32 %rd10, %r20; cvta.shared.u64 %rd11, %rd10;
  ld.v2.u64 {%rd12, %rd13}, [%rd11];
  mov.u64 %rd14, own; cvta.local.u64 %rd15, %rd14;
  st.v2.u64 [%rd15+16], {%rd13, %rd12};
  ld.local.v4.u32 {%r14, %r15, %r16, %r17}, [own+16];
  cvta.to.local.u64 %rd16, %rd15; ld.local.u32 %r18, [%rd16+28];
  isspacep.shared %p1, %rd11; isspacep.local %p2, %rd11; isspacep.global %p3, %rd1;
  selp.u32 %r22, 1, 0, %p1; selp.u32 %r23, 10, 0, %p2; selp.u32 %r24, 100, 0, %p3;
  add.s32 %r22, %r22, %r23; add.s32 %r22, %r22, %r24;
  shl.b32 %r25, %r3, 4; cvt.u64.u32 %rd20, %r25; add.s64 %rd21, %rd1, %rd20;
  st.global.v4.u32 [%rd21], {%r14, %r17, %r18, %r22}; ret;)");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(runner.at(4 * lane), lane + 200);
    EXPECT_EQ(runner.at(4 * lane + 1), lane + 100);
    EXPECT_EQ(runner.at(4 * lane + 2), lane + 100);
    EXPECT_EQ(runner.at(4 * lane + 3), 101u);
  }
}

TEST(Memory, FaultsSayWhatAPersonNeeds) {
  PtxRunner beyond(prologue() + "add.s64 %rd4, %rd2, 1048576; ld.global.u32 %r10, [%rd4]; ret;");
  Outcome outcome = beyond.run(1, 32);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::illegal_address);
  EXPECT_NE(outcome.fault.message.find("kernel k, PTX line"), std::string::npos) << outcome.fault.message;
  EXPECT_NE(outcome.fault.message.find("983040 bytes past the end of buffer (65536 bytes"), std::string::npos)
      << outcome.fault.message;
  PtxRunner odd(prologue() + "add.s64 %rd4, %rd2, 4; setp.eq.u32 %p1, %r3, 4; @%p1 ld.global.u64 %rd5, [%rd4]; ret;");
  outcome = odd.run(1, 32);
  EXPECT_EQ(outcome.fault.kind, Fault::Kind::misaligned_address);
  EXPECT_EQ(outcome.fault.thread.x, 4u);
  PtxRunner shared(prologue() + ".shared .b8 box[64]; mov.u32 %r10, 64; st.shared.u32 [%r10], 1; ret;");
  EXPECT_EQ(shared.run(1, 32).fault.kind, Fault::Kind::illegal_address);
  PtxRunner null(prologue() + "mov.u64 %rd4, 8; st.u32 [%rd4], 1; ret;");
  outcome = null.run(1, 32);
  EXPECT_NE(outcome.fault.message.find("null pointer"), std::string::npos) << outcome.fault.message;
}

TEST(Memory, AtomicsOfEveryKind) {
  PtxRunner runner(prologue() + R"(
  red.global.add.u32 [%rd1], 1;
  atom.global.max.s32 %r10, [%rd1+4], %r5;
  red.global.min.s32 [%rd1+8], -5;
  red.global.or.b32 [%rd1+12], %r3;
  red.global.inc.u32 [%rd1+16], 6;
  cvt.rn.f32.u32 %f1, %r3; red.global.add.f32 [%rd1+20], %f1;
  cvt.u64.u32 %rd10, %r3; red.global.add.u64 [%rd1+24], %rd10;
  mov.b32 %r11, 0x3c003c00; red.global.add.noftz.f16x2 [%rd1+32], %r11;
  mov.b16 %h1, 0x3c00; red.global.add.noftz.f16 [%rd1+38], %h1;
  red.global.dec.u32 [%rd1+40], 9;
  ret;)");
  ASSERT_EQ(runner.run(16, 64).fault.message, "");
  EXPECT_EQ(runner.at(0), 1024u);
  EXPECT_EQ(runner.at(1), 1023u);
  EXPECT_EQ(runner.at<std::int32_t>(2), -5);
  EXPECT_EQ(runner.at(3), 31u);
  EXPECT_EQ(runner.at(4), 1024u % 7);
  EXPECT_EQ(std::bit_cast<float>(runner.at(5)), 32.0f * 496);
  EXPECT_EQ(runner.at<std::uint64_t>(3), 32u * 496);
  EXPECT_EQ(runner.at(8), 0x64006400u);  // 1024 in f16
  EXPECT_EQ(runner.at(9) >> 16, 0x6400u);
  EXPECT_EQ(runner.at(10), (10 - 1024 % 10) % 10);
}

TEST(Memory, AtomicOnPackedSixteenBits) {
  PtxRunner runner(prologue() + R"(
AGAIN: ld.volatile.shared.u16 %h1, [box+2]; add.u16 %h2, %h1, 1;
  .shared .align 4 .b8 box[4];
  atom.shared.cas.b16 %h3, [box+2], %h1, %h2; setp.ne.u16 %p1, %h3, %h1; @%p1 bra AGAIN;
  bar.sync 0; ld.shared.u32 %r10, [box]; st.global.u32 [%rd2], %r10; ret;)");
  ASSERT_EQ(runner.run(1, 64).fault.message, "");
  EXPECT_EQ(runner.at(0), 64u << 16);
}

TEST(Memory, MatricesByRowsAndTransposed) {
  PtxRunner runner(prologue() + R"(
  .shared .align 16 .b8 box[512];
  mov.u32 %r20, box; shl.b32 %r21, %r3, 4; add.s32 %r22, %r20, %r21;
  shl.b32 %r10, %r3, 3; mad.lo.s32 %r11, %r10, 65537, 65536; add.s32 %r12, %r11, 131074;
  add.s32 %r13, %r12, 131074; add.s32 %r14, %r13, 131074;
  st.shared.v4.u32 [%r22], {%r11, %r12, %r13, %r14}; bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r30, %r31, %r32, %r33}, [%r22];
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r34, %r35}, [%r22];
  bar.sync 0;
  xor.b32 %r23, %r22, 128;
  stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r23], {%r30, %r31, %r32, %r33}; bar.sync 0;
  ld.shared.u32 %r36, [%r22];
  mul.wide.u32 %rd10, %r3, 16; add.s64 %rd11, %rd1, %rd10;
  st.global.v4.u32 [%rd11], {%r30, %r33, %r35, %r36}; ret;)");
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  // Row r of matrix m holds 64 m + 8 r + column.
  const auto pair = [](std::uint32_t low, std::uint32_t high) { return low | high << 16; };
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4, column = 2 * (lane % 4);
    EXPECT_EQ(runner.at(4 * lane), pair(8 * row + column, 8 * row + column + 1));
    EXPECT_EQ(runner.at(4 * lane + 1), pair(192 + 8 * row + column, 193 + 8 * row + column));
    EXPECT_EQ(runner.at(4 * lane + 2), pair(64 + 8 * column + row, 64 + 8 * (column + 1) + row));
    EXPECT_EQ(runner.at(4 * lane + 3), pair(8 * (lane ^ 8), 8 * (lane ^ 8) + 1));
  }
}

// Reads the destination before and after the wait; zero fill and a lane that reads nothing.
std::string copies() {
  return prologue() + R"(
  .shared .align 16 .b8 box[512];
  mov.u32 %r20, box; shl.b32 %r21, %r3, 4; add.s32 %r20, %r20, %r21;
  mul.wide.u32 %rd10, %r3, 16; add.s64 %rd11, %rd1, %rd10;
  st.global.v4.u32 [%rd11], {%r3, 1, 2, 3};
  and.b32 %r10, %r3, 1; mul.lo.s32 %r11, %r10, 8;
  mov.u64 %rd12, 16; setp.eq.u32 %p1, %r11, 0; selp.b64 %rd13, %rd12, %rd11, %p1;
  cp.async.cg.shared.global [%r20], [%rd13], 16, %r11;
  cp.async.commit_group;
  ld.shared.u32 %r12, [%r20];
  cp.async.wait_group 0;
  ld.shared.v4.u32 {%r13, %r14, %r15, %r16}, [%r20];
  add.s64 %rd14, %rd2, 4096;
  st.global.u32 [%rd14], %r12; st.global.u32 [%rd14+128], %r13; st.global.u32 [%rd14+256], %r14;
  st.global.u32 [%rd14+384], %r15; ret;)";
}

TEST(Memory, CopiesLandWhenTheScheduleSays) {
  PtxRunner runner(copies());
  for (const auto when : {Schedule::Copies::latest, Schedule::Copies::earliest}) {
    runner.launch.schedule.copies = when;
    ASSERT_EQ(runner.run(1, 32).fault.message, "");
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const bool reads = lane % 2 != 0;
      EXPECT_EQ(runner.at(1024 + lane), reads && when == Schedule::Copies::earliest ? lane : 0);
      EXPECT_EQ(runner.at(1056 + lane), reads ? lane : 0);
      EXPECT_EQ(runner.at(1088 + lane), reads ? 1u : 0);
      EXPECT_EQ(runner.at(1120 + lane), 0u);  // beyond the 8 bytes of the source
    }
  }
}

TEST(Memory, WaitGroupLeavesTheLatestUnderWay) {
  PtxRunner runner(prologue() + R"(
  .shared .align 16 .b8 box[64];
  st.global.u32 [%rd1], 11; st.global.u32 [%rd1+4], 12; st.global.u32 [%rd1+8], 13;
  mov.u32 %r20, box;
  cp.async.ca.shared.global [%r20], [%rd1], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%r20+4], [%rd1+4], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%r20+8], [%rd1+8], 4;
  cp.async.wait_group 1; ld.shared.u32 %r10, [%r20]; ld.shared.u32 %r11, [%r20+4];
  cp.async.wait_all; ld.shared.u32 %r12, [%r20+4]; ld.shared.u32 %r13, [%r20+8];
  st.global.v4.u32 [%rd1+16], {%r10, %r11, %r12, %r13}; ret;)");
  ASSERT_EQ(runner.run(1, 1).fault.message, "");
  EXPECT_EQ(runner.values(8), (std::vector<std::uint32_t>{11, 12, 13, 0, 11, 0, 12, 13}));
}

TEST(Memory, PrintfAndMalloc) {
  const char* text = R"(
.global .align 1 .b8 form[40] = {108,97,110,101,32,37,100,32,111,102,32,37,115,58,32,37,46,50,102,32,37,108,108,120,37,99,10,0};
.global .align 1 .b8 name[4] = {97,98,99,0};
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func (.param .b64 r) malloc (.param .b64 a);
.extern .func free (.param .b64 a);
.visible .entry k(.param .u64 p0, .param .u64 p1) { .reg .b32 %r<9>; .reg .b64 %rd<20>; .reg .pred %p<3>;
  .local .align 8 .b8 depot[40];
  ld.param.u64 %rd1, [p0]; mov.u32 %r1, %laneid;
  { .param .b64 a; .param .b64 b; mov.u64 %rd2, 64; st.param.b64 [a], %rd2;
    call.uni (b), malloc, (a); ld.param.b64 %rd3, [b]; }
  st.u32 [%rd3+60], %r1; ld.u32 %r2, [%rd3+60];
  { .param .b64 a; st.param.b64 [a], %rd3; call.uni free, (a); }
  setp.ne.u32 %p1, %r1, 3; @%p1 bra END;
  mov.u64 %rd4, depot; cvta.local.u64 %rd5, %rd4;
  st.local.u32 [depot], %r2; mov.u64 %rd6, name; cvta.global.u64 %rd7, %rd6; st.local.u64 [depot+8], %rd7;
  mov.u64 %rd8, 0x400921fb54442d18; st.local.u64 [depot+16], %rd8;
  mov.u64 %rd9, 0xfedcba9876; st.local.u64 [depot+24], %rd9; mov.u32 %r3, 33; st.local.u32 [depot+32], %r3;
  mov.u64 %rd10, form; cvta.global.u64 %rd11, %rd10;
  { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %rd11; st.param.b64 [b], %rd5;
    call.uni (c), vprintf, (a, b); ld.param.b32 %r4, [c]; }
  st.global.u32 [%rd1], %r4;
END: ret; })";
  PtxRunner runner(text, Mode::fast, 1 << 16,
                   {{"form", std::string("lane %d of %s: %.2f %llx%c\n", 28)}, {"name", "abc"}});
  std::string printed;
  runner.launch.print = [](void* user, const char* line) { *static_cast<std::string*>(user) += line; };
  runner.launch.print_user = &printed;
  ASSERT_EQ(runner.run(1, 32).fault.message, "");
  EXPECT_EQ(printed, "lane 3 of abc: 3.14 fedcba9876!\n");
  EXPECT_EQ(runner.at(0), 5u);
}

// Refuses the accesses of odd lanes, and counts what it hears.
class Refusing : public Observer {
 public:
  std::uint32_t access(Warp&, const ir::Inst&, const Access& access) override {
    ++accesses;
    return access.lanes & 0x55555555u;
  }
  void before(Warp&, const ir::Inst&, std::uint32_t) override { ++instructions; }
  int accesses = 0;
  std::uint64_t instructions = 0;
};

TEST(Memory, RefusedLanesReadZeroAndWriteNothing) {
  PtxRunner runner(prologue() + R"(
  mov.u32 %r11, 9; ld.global.u32 %r11, [%rd9]; add.s32 %r11, %r11, 1; st.global.u32 [%rd2], %r11; ret;)",
                   Mode::observed);
  const std::uint64_t source = *runner.memory->allocate(4, "source");
  *reinterpret_cast<std::uint32_t*>(source) = 41;
  Refusing observer;
  runner.launch.observer = &observer;
  const Outcome outcome = runner.run(1, 32, {source});
  ASSERT_EQ(outcome.fault.message, "");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(runner.at(lane), lane % 2 == 0 ? 42u : 0u);
  }
  EXPECT_GE(observer.accesses, 2);
  EXPECT_EQ(observer.instructions, outcome.warp_instructions);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec
