// row_math.cuh: the functions within the errors that the PTX manual allows their instructions, and the quads.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cuda/atoms/atom_kernels.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::testing {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

struct Functions {
  std::vector<float> exp2, log2, inverse, tanh;
};

Functions functions_of(const runtime::Function& kernel, const std::vector<float>& x) {
  const DeviceVector<float> there(x), exp2(x.size()), log2(x.size()), inverse(x.size()), tanh(x.size());
  launch(kernel, static_cast<unsigned>((x.size() + 127) / 128), 128, there.address(), static_cast<int>(x.size()),
         exp2.address(), log2.address(), inverse.address(), tanh.address());
  return {exp2.values(), log2.values(), inverse.values(), tanh.values()};
}

TEST_P(Atoms, FunctionsStayWithinTheManualsErrors) {
  std::vector<float> x;
  Random random(11);
  for (int i = 0; i < 4000; ++i) x.push_back(static_cast<float>(random.normal() * std::exp2(random.between(-20, 6))));
  const Functions got = functions_of(kernel("row_math.cu", "functions"), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]);
    if (std::exp2(v) > 0x1p-126 && v < 127.9) {
      EXPECT_LE(std::abs(static_cast<double>(got.exp2[i]) / std::exp2(v) - 1), 0x1p-22 + std::abs(v) * 0x1p-24) << v;
    }
    EXPECT_LE(std::abs(static_cast<double>(got.inverse[i]) * v - 1), 0x1p-23) << v;
    // 1 is the largest number in it, so its rounding is what counts.
    EXPECT_LE(std::abs(static_cast<double>(got.tanh[i]) - std::tanh(v)), 4 * 0x1p-23) << v;
    if (v > 0) {
      const bool is_near_one = v > 0.5 && v < 2;
      const double error = std::abs(static_cast<double>(got.log2[i]) - std::log2(v));
      EXPECT_LE(error, is_near_one ? 0x1p-22 : 0x1p-22 * std::abs(std::log2(v))) << v;
    }
  }
}

TEST_P(Atoms, FunctionsAtTheirEnds) {
  const std::vector<float> x = {-infinity, infinity, nan_value, 0.0F, 1.0F, -1e4F, 1e4F};
  const Functions got = functions_of(kernel("row_math.cu", "functions"), x);
  const auto expect = [](const std::vector<float>& values, const std::vector<float>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(values[i]) : values[i] == expected[i])
          << i << ": " << values[i] << " for " << expected[i];
  };
  expect(got.exp2, {0.0F, infinity, nan_value, 1.0F, 2.0F, 0.0F, infinity});
  expect(got.log2, {nan_value, infinity, nan_value, -infinity, 0.0F, nan_value});
  expect(got.inverse, {0.0F, 0.0F, nan_value, infinity, 1.0F});
  EXPECT_EQ(got.tanh[0], -1.0F);
  EXPECT_EQ(got.tanh[1], 1.0F);
  EXPECT_TRUE(std::isnan(got.tanh[2]));
  EXPECT_EQ(got.tanh[3], 0.0F);
}

TEST_P(Atoms, AQuadSharesItsLargestAndItsSum) {
  std::vector<float> x(32);
  for (std::size_t i = 0; i < 32; ++i) x[i] = static_cast<float>((i * 7) % 13) - 20;
  const DeviceVector<float> there(x), largest(32), sum(32), nan(32);
  const DeviceVector<uint32_t> thread(32);
  const auto findings = launch(kernel("row_math.cu", "quads"), 1, 32, there.address(), largest.address(), sum.address(),
                               thread.address(), nan.address());
  EXPECT_TRUE(findings.empty()) << findings.front();
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const auto* const quad = &x[lane / 4 * 4];
    EXPECT_EQ(largest.values()[lane], std::max({quad[0], quad[1], quad[2], quad[3]}));
    EXPECT_EQ(sum.values()[lane], quad[0] + quad[1] + quad[2] + quad[3]);
    EXPECT_EQ(thread.values()[lane], lane);
    EXPECT_TRUE(std::isnan(nan.values()[lane]));
  }
}

INSTANTIATE_TEST_SUITE_P(BothCompilers, Atoms, ::testing::Values(Compiler::nvcc, Compiler::nvrtc), compiler_name);

}  // namespace
}  // namespace flashmoe::testing
