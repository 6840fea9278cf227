// exp2 over every float the kernels pass: all of [-inf, 0] and up to 16, for every ISA of this machine and every
// degree.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/registry.hpp"

namespace flashmoe::cpu {
namespace {

struct Degree {
  int degree;
  double max_relative_error;  // of the polynomial, plus two fp32 roundings
};
constexpr Degree degrees[] = {{3, 8.7e-5}, {4, 3.2e-6}, {6, 2.5e-7}};

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> found;
  for (int isa = FMS_ISA_SCALAR; isa <= FMS_ISA_AVX512 && isa <= best_isa(); ++isa) {
    found.push_back(&kernels(static_cast<fms_cpu_isa>(isa)));
  }
  return found;
}

TEST(Exp2, IsExactAtZeroAndKnowsInfinityAndNan) {
  const float inf = std::numeric_limits<float>::infinity();
  const float x[] = {0.0F, -0.0F, -1.0F, -2.0F, -inf, std::numeric_limits<float>::quiet_NaN(), -1000.0F, -3e38F};
  for (const KernelTable* table : tables()) {
    for (const auto& [degree, bound] : degrees) {
      float y[std::size(x)];
      table->exp2(degree, x, y, std::size(x));
      EXPECT_EQ(y[0], 1.0F);
      EXPECT_EQ(y[1], 1.0F);
      EXPECT_EQ(y[2], 0.5F);
      EXPECT_EQ(y[3], 0.25F);
      EXPECT_EQ(y[4], 0.0F);
      EXPECT_TRUE(std::isnan(y[5]));
      EXPECT_EQ(y[6], 0.0F);
      EXPECT_EQ(y[7], 0.0F);
    }
  }
}

bool is_within(double bound, float y, double exact) {
  return std::fabs(static_cast<double>(y) - exact) <= bound * exact;
}

// Without a way out of the loop, so that it becomes vector instructions: it looks at ten thousand million results.
[[gnu::target_clones("avx2", "default")]] bool all_within(double bound, const std::vector<float>& y,
                                                          const std::vector<double>& exact) {
  int64_t bad = 0;
  for (std::size_t i = 0; i < y.size(); ++i) bad += is_within(bound, y[i], exact[i]) ? 0 : 1;
  return bad == 0;
}

uint32_t first_beyond(double bound, const std::vector<float>& y, const std::vector<double>& exact) {
  uint32_t i = 0;
  while (is_within(bound, y[i], exact[i])) ++i;
  return i;
}

// All floats whose bits are in [first, last), in blocks of 2^16.
void expect_error_within_bounds(uint32_t first, uint32_t last) {
  constexpr uint32_t block = 1U << 16;
  const std::vector<const KernelTable*> isas = tables();
  std::atomic<int64_t> checked{0};
  std::atomic<uint32_t> first_bad{0};
#pragma omp parallel
  {
    std::vector<float> x(block);
    std::vector<double> exact(block);
    std::vector<float> y(block);
#pragma omp for schedule(dynamic, 64)
    for (uint32_t start = first; start < last; start += block) {
      for (uint32_t i = 0; i < block; ++i) {
        x[i] = std::bit_cast<float>(start + i);
        exact[i] = std::exp2(static_cast<double>(x[i]));
      }
      for (const KernelTable* table : isas) {
        for (const auto& [degree, bound] : degrees) {
          table->exp2(degree, x.data(), y.data(), block);
          if (!all_within(bound, y, exact)) first_bad = start + first_beyond(bound, y, exact);
        }
      }
      checked += block;
    }
  }
  EXPECT_EQ(first_bad, 0U) << "2^" << std::bit_cast<float>(first_bad.load()) << " is off by more than its bound";
  EXPECT_EQ(checked, int64_t{last} - first);
}

TEST(Exp2, HoldsItsErrorOverAllFloatsBelowZero) {
  // -126: below it the result is denormal or 0 and only its size matters
  expect_error_within_bounds(std::bit_cast<uint32_t>(-0.0F), std::bit_cast<uint32_t>(-126.0F));
}

TEST(Exp2, HoldsItsErrorAboveZeroWhereAnOlderMaximumIsTheOffset) {
  expect_error_within_bounds(std::bit_cast<uint32_t>(0x1p-24F), std::bit_cast<uint32_t>(16.0F));
}

TEST(Exp2, BelowTheNormalRangeTheResultIsTinyAndNotNegative) {
  std::vector<float> x;
  for (float value = -126.0F; value > -400.0F; value -= 0.37F) x.push_back(value);
  std::vector<float> y(x.size());
  for (const KernelTable* table : tables()) {
    for (const auto& [degree, bound] : degrees) {
      table->exp2(degree, x.data(), y.data(), x.size());
      for (const float value : y) {
        EXPECT_GE(value, 0.0F);
        EXPECT_LE(value, std::numeric_limits<float>::min());
      }
    }
  }
}

}  // namespace
}  // namespace flashmoe::cpu
