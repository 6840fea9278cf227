// Access patterns whose wavefronts, conflicts and sectors follow by hand, executed as PTX and counted by the watch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>

#include "vgpu/mutants/bench.hpp"
#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

struct Pattern {
  std::string name{};
  std::string offset{};                     // PTX that puts the lane's byte offset into %r2; %r1 is the lane
  std::string access{};                     // PTX of the one access: shared address in %r4, global address in %rd2
  std::uint64_t wavefronts = 0, ideal = 0;  // of shared memory
  std::uint64_t sectors = 0, lines = 0;     // of global memory
};

std::string times(int bytes) {
  return fmt::format("mul.lo.u32 %r2, %r1, {};", bytes);
}

std::string module_text(const Pattern& pattern) {
  return fmt::format(R"(.version 8.0
.target sm_89
.address_size 64
.visible .entry pattern(.param .u64 in, .param .u64 out, .param .u64 work, .param .u32 n)
{{
  .shared .align 128 .b8 buffer[32768];
  .reg .b32 %r<16>;
  .reg .b64 %rd<8>;
  .reg .b16 %h<4>;
  ld.param.u64 %rd1, [in];
  mov.u32 %r1, %tid.x;
  {}
  mov.u32 %r3, buffer;
  add.u32 %r4, %r3, %r2;
  cvt.u64.u32 %rd3, %r2;
  add.u64 %rd2, %rd1, %rd3;
  mov.u64 %rd4, 0;
  mov.u32 %r5, 0;
  {}
  ret;
}}
)",
                     pattern.offset, pattern.access);
}

std::vector<Pattern> patterns() {
  std::vector<Pattern> list;
  // Words at stride s: gcd(s, 32) lanes meet in a bank; sectors: 32 lanes over 4 s bytes each, a sector holds 8 words.
  for (int stride = 1; stride <= 33; ++stride) {
    const auto meet = static_cast<std::uint64_t>(std::gcd(stride, 32));
    list.push_back(
        {fmt::format("store, stride {} words", stride), times(4 * stride), "st.shared.u32 [%r4], %r5;", meet, 1});
  }
  list.push_back({"load, stride 2 words", times(8), "ld.shared.u32 %r6, [%r4];", 2, 1});
  list.push_back({"load, padded column (33 words)", times(132), "ld.shared.f32 %r6, [%r4];", 1, 1});
  list.push_back({"load, column of 32 words", times(128), "ld.shared.f32 %r6, [%r4];", 32, 1});
  list.push_back({"broadcast", times(0), "ld.shared.u32 %r6, [%r4];", 1, 1});
  list.push_back(
      {"two words of one bank", "shr.u32 %r2, %r1, 4; shl.b32 %r2, %r2, 7;", "ld.shared.u32 %r6, [%r4];", 2, 1});
  list.push_back({"bytes", times(1), "ld.shared.u8 %r6, [%r4];", 1, 1});
  list.push_back({"halves", times(2), "ld.shared.b16 %h1, [%r4];", 1, 1});
  list.push_back({"halves, stride 64", times(128), "ld.shared.b16 %h1, [%r4];", 32, 1});
  list.push_back({"64-bit, dense", times(8), "ld.shared.b64 %rd5, [%r4];", 2, 2});
  list.push_back({"64-bit, stride 16 bytes", times(16), "ld.shared.b64 %rd5, [%r4];", 4, 2});
  list.push_back({"v2, stride 40 bytes", times(40), "ld.shared.v2.u32 {%r6, %r7}, [%r4];", 2, 2});
  list.push_back({"64-bit store, rows of 128", times(128), "st.shared.b64 [%r4], %rd4;", 32, 2});
  list.push_back({"128-bit, dense", times(16), "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4];", 4, 4});
  list.push_back({"128-bit, stride 32 bytes", times(32), "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4];", 8, 4});
  list.push_back({"128-bit, rows of 128", times(128), "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4];", 32, 4});
  list.push_back({"128-bit, rows of 144", times(144), "st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5};", 4, 4});
  // ldmatrix: rows of 128 bytes all begin in bank 0; chunk xor row spreads them over all banks.
  const char* const plain_rows =
      "and.b32 %r6, %r1, 15; mul.lo.u32 %r2, %r6, 128; shr.u32 %r7, %r1, 4; mad.lo.u32 %r2, %r7, 16, %r2;";
  const char* const swizzled_rows =
      "and.b32 %r6, %r1, 15; mul.lo.u32 %r2, %r6, 128; shr.u32 %r7, %r1, 4; and.b32 %r8, %r6, 7; xor.b32 %r7, %r7, "
      "%r8; "
      "mad.lo.u32 %r2, %r7, 16, %r2;";
  const char* const x4 = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];";
  list.push_back({"ldmatrix.x4, no swizzle", plain_rows, x4, 32, 4});
  list.push_back({"ldmatrix.x4, swizzled", swizzled_rows, x4, 4, 4});
  list.push_back({"ldmatrix.x4.trans, swizzled", swizzled_rows,
                  "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r6, %r7, %r8, %r9}, [%r4];", 4, 4});
  list.push_back({"ldmatrix.x4, rows of 64", times(64), x4, 16, 4});
  list.push_back({"ldmatrix.x4, rows of 80", times(80), x4, 4, 4});
  list.push_back(
      {"ldmatrix.x2, no swizzle", plain_rows, "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r6, %r7}, [%r4];", 16, 2});
  list.push_back({"ldmatrix.x1, dense", times(16), "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r4];", 1, 1});
  // cp.async: the shared side as a store of its size, the global side as a load.
  const char* const wait = " cp.async.wait_all;";
  list.push_back(
      {"cp.async 4, dense", times(4), std::string("cp.async.ca.shared.global [%r4], [%rd2], 4;") + wait, 1, 1, 4, 1});
  list.push_back(
      {"cp.async 8, dense", times(8), std::string("cp.async.ca.shared.global [%r4], [%rd2], 8;") + wait, 2, 2, 8, 2});
  list.push_back({"cp.async 16, dense", times(16), std::string("cp.async.cg.shared.global [%r4], [%rd2], 16;") + wait,
                  4, 4, 16, 4});
  list.push_back({"cp.async 16, rows of 128", times(128),
                  std::string("cp.async.cg.shared.global [%r4], [%rd2], 16;") + wait, 32, 4, 32, 32});
  list.push_back({"cp.async 16, swizzled rows", swizzled_rows,
                  std::string("cp.async.cg.shared.global [%r4], [%rd2], 16;") + wait, 4, 4, 16, 16});
  list.push_back({"shared atomic, one word", times(0), "red.shared.add.u32 [%r4], %r5;", 32, 1});
  list.push_back({"shared atomic, dense", times(4), "red.shared.add.u32 [%r4], %r5;", 1, 1});
  // Global memory: sectors of 32 bytes, lines of 128.
  list.push_back({"global load, dense", times(4), "ld.global.u32 %r6, [%rd2];", 0, 0, 4, 1});
  list.push_back({"global load, stride 2", times(8), "ld.global.u32 %r6, [%rd2];", 0, 0, 8, 2});
  list.push_back({"global load, a sector a lane", times(32), "ld.global.u32 %r6, [%rd2];", 0, 0, 32, 8});
  list.push_back({"global load, a line a lane", times(128), "ld.global.u32 %r6, [%rd2];", 0, 0, 32, 32});
  list.push_back({"global load, one word off", "mad.lo.u32 %r2, %r1, 4, 4;", "ld.global.u32 %r6, [%rd2];", 0, 0, 5, 2});
  list.push_back({"global broadcast", times(0), "ld.global.u32 %r6, [%rd2];", 0, 0, 1, 1});
  list.push_back({"global load, 64-bit", times(8), "ld.global.b64 %rd5, [%rd2];", 0, 0, 8, 2});
  list.push_back({"global load, 128-bit", times(16), "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd2];", 0, 0, 16, 4});
  list.push_back({"global store, 128-bit", times(16), "st.global.v4.u32 [%rd2], {%r5, %r5, %r5, %r5};", 0, 0, 16, 4});
  list.push_back({"global store, bytes", times(1), "st.global.u8 [%rd2], %r5;", 0, 0, 1, 1});
  list.push_back({"global atomic, dense", times(4), "red.global.add.u32 [%rd2], %r5;", 0, 0, 4, 1});
  return list;
}

TEST(Patterns, CountsFollowByHand) {
  const std::vector<Pattern> list = patterns();
  ASSERT_GE(list.size(), 25u);
  Case how;
  how.name = "pattern";
  how.block = {32, 1, 1};
  how.in_count = 2048;  // 8 KiB: the widest pattern ends at 32 x 132 + 4 words
  how.out_count = 1;
  for (const Pattern& pattern : list) {
    SCOPED_TRACE(pattern.name);
    const auto module = ptx::parse(module_text(pattern), "pattern.ptx");
    ASSERT_TRUE(module) << module.error().to_string();
    const auto program = Program::load(*module, "pattern");
    ASSERT_TRUE(program) << program.error().to_string();
    const auto seen = (*program)->run(how, {});
    ASSERT_TRUE(seen) << seen.error().to_string();
    ASSERT_EQ(seen->fault.kind, exec::Fault::Kind::none) << seen->fault.message;
    observe::MemoryCounts sum;
    for (const observe::MemoryCounts& counts : seen->counts.memory) sum += counts;
    EXPECT_EQ(sum.shared_wavefronts, pattern.wavefronts);
    EXPECT_EQ(sum.shared_ideal, pattern.ideal);
    EXPECT_EQ(sum.shared_wavefronts - sum.shared_ideal, pattern.wavefronts - pattern.ideal);
    EXPECT_EQ(sum.global_sectors, pattern.sectors);
    EXPECT_EQ(sum.global_lines, pattern.lines);
  }
  std::printf("%zu access patterns\n", list.size());
}

}  // namespace
}  // namespace flashmoe::vgpu::corpus
