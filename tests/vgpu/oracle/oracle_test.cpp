// The oracle on its own, on kernels whose results were worked out by hand: a judge must not be judged by the defendant.
#include <gtest/gtest.h>

#include <cstring>

#include "vgpu/oracle/run.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::oracle {
namespace {

constexpr std::uint64_t buffer_address = 0x100000;

// Runs `body` with 32 lanes; %out points at the lane's own 16 bytes of results, preset to its lane number.
std::vector<std::uint32_t> lanes_after(const std::string& body, std::uint32_t threads = 32, int words = 4) {
  const std::string text =
      ".version 9.0\n.target sm_89\n.address_size 64\n"
      ".func (.param .b32 twice) double_it(.param .b32 x) {\n"
      "  .reg .b32 %v;\n ld.param.b32 %v, [x];\n add.s32 %v, %v, %v;\n"
      "  st.param.b32 [twice], %v;\n ret;\n}\n"
      ".visible .entry k(.param .u64 buffer) {\n"
      "  .reg .b32 %r<40>;\n .reg .b64 %d<20>;\n .reg .b16 %h<10>;\n .reg .pred %p<10>;\n"
      "  .reg .b64 %out;\n .reg .b32 %lane;\n .shared .align 16 .b8 tile[2048];\n"
      "  ld.param.u64 %out, [buffer];\n mov.u32 %lane, %tid.x;\n"
      "  mad.wide.u32 %out, %lane, " +
      std::to_string(4 * words) + ", %out;\n" + body + "\n ret;\n}\n";
  const auto module = ptx::parse(text, "oracle test");
  EXPECT_TRUE(module) << (module ? "" : module.error().to_string());
  if (!module) return {};
  GlobalMemory memory;
  memory.ranges[buffer_address].assign(threads * static_cast<std::uint32_t>(words) * 4, 0);
  LaunchDescription launch;
  launch.entry = "k";
  launch.block.x = threads;
  launch.parameters.resize(8);
  std::memcpy(launch.parameters.data(), &buffer_address, 8);
  const std::string problem = run(*module, launch, memory);
  EXPECT_EQ(problem, "");
  std::vector<std::uint32_t> result(threads * static_cast<std::uint32_t>(words));
  std::memcpy(result.data(), memory.ranges[buffer_address].data(), result.size() * 4);
  return result;
}

TEST(Oracle, IntegersLogicAndLoops) {
  const auto got = lanes_after(R"(
    mov.u32 %r1, 0; mov.u32 %r2, 0;
  again:
    add.s32 %r1, %r1, %r2; add.s32 %r2, %r2, 1;
    setp.le.u32 %p1, %r2, %lane;
    @%p1 bra again;
    st.global.u32 [%out], %r1;
    mul.hi.s32 %r3, -5, 0x40000000; st.global.u32 [%out+4], %r3;
    bfe.s32 %r4, 0xf0, 4, 4; st.global.u32 [%out+8], %r4;
    prmt.b32 %r5, 0x33221100, 0x77665584, 0xc4f7; st.global.u32 [%out+12], %r5;
  )");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[4 * lane], lane * (lane + 1) / 2);
    EXPECT_EQ(got[4 * lane + 1], 0xfffffffeu);
    EXPECT_EQ(got[4 * lane + 2], 0xffffffffu);
    EXPECT_EQ(got[4 * lane + 3], 0xff840077u);
  }
}

TEST(Oracle, HalfAndEightBitConversions) {
  const auto got = lanes_after(R"(
    cvt.rn.f16x2.f32 %r1, 0f3F800000, 0fC0000000; st.global.u32 [%out], %r1;
    cvt.rn.satfinite.e4m3x2.f32 %h1, 0f44800000, 0fBF800000; cvt.u32.u16 %r2, %h1; st.global.u32 [%out+4], %r2;
    cvt.rn.f16x2.e4m3x2 %r3, %h1; st.global.u32 [%out+8], %r3;
    cvt.rzi.s32.f32 %r4, 0fCF800000; st.global.u32 [%out+12], %r4;
  )");
  EXPECT_EQ(got[0], 0x3c00c000u);
  EXPECT_EQ(got[1], 0x7eb8u);  // 448 and -1
  EXPECT_EQ(got[2], 0x5f00bc00u);
  EXPECT_EQ(got[3], 0x80000000u);
}

TEST(Oracle, ShufflesVotesAndDivergence) {
  const auto got = lanes_after(R"(
    shfl.sync.down.b32 %r1|%p1, %lane, 1, 0x1f, -1; st.global.u32 [%out], %r1;
    setp.lt.u32 %p2, %lane, 5;
    vote.sync.ballot.b32 %r2, %p2, -1; st.global.u32 [%out+4], %r2;
    and.b32 %r3, %lane, 1; setp.eq.u32 %p3, %r3, 0;
    @%p3 bra even;
    redux.sync.add.u32 %r4, %lane, 0xaaaaaaaa;
    bra join;
  even:
    redux.sync.max.u32 %r4, %lane, 0x55555555;
  join:
    st.global.u32 [%out+8], %r4;
    match.any.sync.b32 %r5, %r3, -1; st.global.u32 [%out+12], %r5;
  )");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(got[4 * lane], lane == 31 ? 31 : lane + 1);
    EXPECT_EQ(got[4 * lane + 1], 31u);
    EXPECT_EQ(got[4 * lane + 2], lane % 2 == 0 ? 30u : 256u);
    EXPECT_EQ(got[4 * lane + 3], lane % 2 == 0 ? 0x55555555u : 0xaaaaaaaau);
  }
}

TEST(Oracle, CallsBarriersAndAsyncCopies) {
  const auto got = lanes_after(R"(
    {
      .param .b32 argument; .param .b32 result;
      st.param.b32 [argument], %lane;
      call.uni (result), double_it, (argument);
      ld.param.b32 %r1, [result];
    }
    st.global.u32 [%out], %r1;
    mov.u32 %r2, tile; shl.b32 %r3, %lane, 2; add.u32 %r2, %r2, %r3;
    cp.async.ca.shared.global [%r2], [%out], 4;
    cp.async.commit_group;
    ld.shared.u32 %r4, [%r2];
    cp.async.wait_group 0;
    bar.sync 0;
    mov.u32 %r5, tile; sub.u32 %r6, 63, %lane; shl.b32 %r6, %r6, 2; add.u32 %r5, %r5, %r6;
    ld.shared.u32 %r7, [%r5];
    st.global.u32 [%out+4], %r7; st.global.u32 [%out+8], %r4;
    setp.lt.u32 %p1, %lane, 40; bar.red.popc.u32 %r8, 0, %p1; st.global.u32 [%out+12], %r8;
  )",
                               64);
  for (std::uint32_t lane = 0; lane < 64; ++lane) {
    EXPECT_EQ(got[4 * lane], 2 * lane);
    EXPECT_EQ(got[4 * lane + 1], 2 * (63 - lane));
    EXPECT_EQ(got[4 * lane + 2], 0u) << "an asynchronous copy has not landed before the wait";
    EXPECT_EQ(got[4 * lane + 3], 40u);
  }
}

// A = one 1 in row i, column i; B[k][n] = k: the product is B's rows, found where the manual says D's elements are.
TEST(Oracle, MatrixProductLayout) {
  const auto got = lanes_after(R"(
    // A is the identity (16 x 16): row = lane/4 (+8), column = 2*(lane%4) (+8)
    shr.u32 %r20, %lane, 2; and.b32 %r21, %lane, 3; shl.b32 %r21, %r21, 1;
    setp.eq.u32 %p1, %r20, %r21; selp.b32 %r1, 0x3c00, 0, %p1;
    add.u32 %r22, %r21, 1; setp.eq.u32 %p2, %r20, %r22; selp.b32 %r2, 0x3c000000, 0, %p2;
    or.b32 %r3, %r1, %r2;
    // B[k][n] = k + n: pairs of k in one register
    add.u32 %r23, %r21, %r20; cvt.rn.f32.u32 %r4, %r23; add.u32 %r24, %r23, 1; cvt.rn.f32.u32 %r5, %r24;
    cvt.rn.f16x2.f32 %r6, %r5, %r4;
    add.u32 %r23, %r23, 8; cvt.rn.f32.u32 %r4, %r23; add.u32 %r24, %r23, 1; cvt.rn.f32.u32 %r5, %r24;
    cvt.rn.f16x2.f32 %r7, %r5, %r4;
    mov.b32 %r8, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13}, {%r3, %r8, %r8, %r3}, {%r6, %r7},
        {%r8, %r8, %r8, %r8};
    cvt.rni.u32.f32 %r10, %r10; cvt.rni.u32.f32 %r11, %r11; cvt.rni.u32.f32 %r12, %r12; cvt.rni.u32.f32 %r13, %r13;
    st.global.v4.u32 [%out], {%r10, %r11, %r12, %r13};
  )");
  for (std::uint32_t lane = 0; lane < 32; ++lane)
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t row = lane / 4 + (i >= 2 ? 8 : 0), column = 2 * (lane % 4) + i % 2;
      EXPECT_EQ(got[4 * lane + i], row + column) << lane << ' ' << i;
    }
}

TEST(Oracle, MatricesFromSharedMemory) {
  const auto got = lanes_after(R"(
    // tile[i] = i, 16-bit, 4 matrices of 8 x 8
    mov.u32 %r1, tile; shl.b32 %r2, %lane, 4; add.u32 %r3, %r1, %r2; mov.u32 %r4, 0;
  fill:
    shl.b32 %r5, %lane, 3; add.u32 %r5, %r5, %r4; shl.b32 %r6, %r4, 1; add.u32 %r6, %r6, %r3;
    cvt.u16.u32 %h1, %r5; st.shared.b16 [%r6], %h1;
    add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 8; @%p1 bra fill;
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r3];
    ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r14}, [%r3];
    movmatrix.sync.aligned.m8n8.trans.b16 %r15, %r10;
    st.global.u32 [%out], %r10; st.global.u32 [%out+4], %r13; st.global.u32 [%out+8], %r14;
    st.global.u32 [%out+12], %r15;
  )");
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t row = lane / 4, column = 2 * (lane % 4);
    const std::uint32_t first = row * 8 + column, transposed = column * 8 + row;
    EXPECT_EQ(got[4 * lane], first | (first + 1) << 16);
    EXPECT_EQ(got[4 * lane + 1], (first + 192) | (first + 193) << 16);
    EXPECT_EQ(got[4 * lane + 2], transposed | (transposed + 8) << 16);
    EXPECT_EQ(got[4 * lane + 3], transposed | (transposed + 8) << 16);
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::oracle
