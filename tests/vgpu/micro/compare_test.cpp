// The judge must be able to find somebody guilty.
#include "vgpu/micro/compare.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "vgpu/micro/bench.hpp"
#include "vgpu/micro/form_text.hpp"

namespace flashmoe::vgpu::micro {
namespace {

std::string verdict(const std::string& type, Tolerance tolerance, std::uint64_t got, std::uint64_t expected,
                    std::uint64_t magnitude = 0) {
  MicroKernel kernel;
  kernel.threads = 1;
  kernel.input_stride = kernel.output_stride = 8;
  kernel.input.resize(8);
  kernel.fields = {{0, type, tolerance}};
  const auto bytes = [](std::uint64_t word) {
    std::vector<std::uint8_t> result(8);
    std::memcpy(result.data(), &word, 8);
    return result;
  };
  const std::vector<std::uint8_t> left = bytes(got), right = bytes(expected);
  return compare({kernel, left, right, bytes(magnitude)});
}

TEST(Compare, BitsNumbersAndBounds) {
  const Tolerance number{Tolerance::Kind::number};
  EXPECT_EQ(verdict("u32", {}, 5, 5), "");
  EXPECT_NE(verdict("u32", {}, 5, 4), "");
  EXPECT_NE(verdict("u32", {}, 5ull << 32, 0), "") << "bytes beside the fields count too";
  EXPECT_EQ(verdict("f32", number, 0x7fc00000, 0x7fffffff), "");
  EXPECT_NE(verdict("f32", {}, 0x7fc00000, 0x7fffffff), "");
  EXPECT_NE(verdict("f32", number, 0x7fc00000, 0x7f800000), "") << "a NaN is no infinity";
  EXPECT_NE(verdict("f32", number, 0x80000000, 0), "") << "nor is -0 the same as +0";
  EXPECT_EQ(verdict("f16x2", number, 0x7e003c00, 0x7fff3c00), "");
  EXPECT_NE(verdict("f16x2", number, 0x7e003c00, 0x7fff3c01), "");
  const Tolerance two_ulps = tolerance_of("ex2.approx.ftz.f32");
  EXPECT_EQ(verdict("f32", two_ulps, 0x3f800002, 0x3f800000), "");
  EXPECT_NE(verdict("f32", two_ulps, 0x3f800003, 0x3f800000), "");
  EXPECT_NE(verdict("f32", two_ulps, 0x7f800000, 0x3f800000), "") << "no infinity without overflow";
  const Tolerance sum{Tolerance::Kind::sum, 0, 0x1p-20, 0};
  const auto f32 = [](float x) { return std::uint64_t{std::bit_cast<std::uint32_t>(x)}; };
  EXPECT_EQ(verdict("f32", sum, f32(1.00001f), f32(1.0f), f32(100)), "");
  EXPECT_NE(verdict("f32", sum, f32(1.001f), f32(1.0f), f32(100)), "");
}

// A kernel whose result depends on who runs it is told apart: the two machines give generic addresses differently.
TEST(Compare, BenchSeesADifference) {
  MicroKernel kernel;
  kernel.form = "difference";
  kernel.threads = 32;
  kernel.input.resize(32 * 64);
  kernel.text =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 inputs, .param .u64 results) {\n"
      "  .reg .b64 %a, %out; .shared .align 8 .b8 tile[8];\n  ld.param.u64 %out, [results]; mov.u64 %a, tile;\n"
      "  cvta.shared.u64 %a, %a; st.global.b64 [%out], %a; ret;\n}\n";
  Bench bench;
  EXPECT_NE(bench.judge(kernel), "");
}

TEST(FormText, OperandsOfTheTable) {
  const FormText form = take_apart("mad.wide.s32", "d:W a:T b:T c:W");
  ASSERT_EQ(form.operands.size(), 4u);
  EXPECT_EQ(form.operands[0].type, "s64");
  EXPECT_EQ(form.operands[1].type, "s32");
  const FormText load = take_apart("ld.global.v4.f32", "d:v:T+ a:addr policy:b64?");
  EXPECT_EQ(load.operands[0].kind, "vector");
  EXPECT_EQ(load.operands[0].length, 4);
  EXPECT_TRUE(load.operands[0].may_widen);
  EXPECT_EQ(load.operands[1].kind, "addr");
}

}  // namespace
}  // namespace flashmoe::vgpu::micro
