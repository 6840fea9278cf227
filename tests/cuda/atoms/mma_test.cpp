// mma.cuh: fragments against a plain product, and the formats pair by pair.
#include <cmath>
#include <functional>

#include "cuda/atoms/atom_kernels.hpp"
#include "support/number_format.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::testing {
namespace {

constexpr fms_dtype dtypes[] = {FMS_F16, FMS_BF16};

std::string named(const char* kernel, fms_dtype dtype) {
  return std::string(kernel) + (dtype == FMS_F16 ? "_f16" : "_bf16");
}

// rows x columns of 16-bit numbers, kept as doubles beside their bits.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values;  // by rows

  Matrix(std::size_t r, std::size_t c, fms_dtype dtype, const std::function<double()>& next)
      : rows(r), columns(c), values(r * c) {
    for (double& value : values) value = round_to(dtype, next());
  }
  double at(std::size_t r, std::size_t c) const { return values[r * columns + c]; }

  // Two neighbours of a row a word; or of a column.
  std::vector<uint32_t> words(fms_dtype dtype, bool by_columns) const {
    std::vector<uint32_t> to(values.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = by_columns ? at(i % rows, i / rows) : values[i];
      store(to.data(), dtype, static_cast<int64_t>(i), value);
    }
    return to;
  }
};

double product_at(const Matrix& a, const Matrix& b, std::size_t row, std::size_t column) {
  double sum = 0;
  for (std::size_t k = 0; k < a.columns; ++k) sum += a.at(row, k) * b.at(k, column);
  return sum;
}

// Small whole numbers, so that every order of summation gives the same bits.
std::function<double()> whole_numbers(uint64_t seed) {
  return [random = Random(seed)]() mutable { return static_cast<double>(random.between(-8, 8)); };
}

TEST_P(Atoms, AProductIsThePlainProduct) {
  for (const fms_dtype dtype : dtypes) {
    const Matrix a(16, 16, dtype, whole_numbers(1)), b(16, 8, dtype, whole_numbers(2));
    std::vector<float> c(128);
    for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i) - 64.5F;
    const DeviceVector<uint32_t> a_words(a.words(dtype, false)), b_words(b.words(dtype, true));
    const DeviceVector<float> c_there(c), with_c(128), alone(128);
    const auto findings = launch(kernel("mma.cu", named("product", dtype)), 1, 32, a_words.address(), b_words.address(),
                                 c_there.address(), with_c.address(), alone.address());
    EXPECT_TRUE(findings.empty()) << findings.front();
    for (std::size_t row = 0; row < 16; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        const std::size_t i = row * 8 + column;
        const double expected = product_at(a, b, row, column);
        EXPECT_EQ(alone.values()[i], expected) << row << ", " << column;
        EXPECT_EQ(with_c.values()[i], expected + static_cast<double>(c[i])) << row << ", " << column;
      }
  }
}

TEST_P(Atoms, PackedProductsAreTheNextFragment) {
  for (const fms_dtype dtype : dtypes) {
    const Matrix a(16, 16, dtype, whole_numbers(3)), b(16, 16, dtype, whole_numbers(4)),
        v(16, 8, dtype, whole_numbers(5));
    const DeviceVector<uint32_t> a_words(a.words(dtype, false)), b_words(b.words(dtype, true)),
        v_words(v.words(dtype, true));
    const DeviceVector<float> to(128);
    const auto findings = launch(kernel("mma.cu", named("chain", dtype)), 1, 32, a_words.address(), b_words.address(),
                                 v_words.address(), to.address());
    EXPECT_TRUE(findings.empty()) << findings.front();
    for (std::size_t row = 0; row < 16; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        double expected = 0;
        for (std::size_t k = 0; k < 16; ++k) expected += round_to(dtype, product_at(a, b, row, k)) * v.at(k, column);
        EXPECT_EQ(to.values()[row * 8 + column], expected) << row << ", " << column;
      }
  }
}

TEST_P(Atoms, EveryPatternOf16BitsIsUnderstood) {
  for (const fms_dtype dtype : dtypes) {
    const DeviceVector<float> values(65536);
    const DeviceVector<uint32_t> packed(65536), wild(65536);
    launch(kernel("mma.cu", named("formats", dtype)), 256, 256, values.address(), packed.address(), wild.address());
    const auto got = values.values();
    const auto got_packed = packed.values(), got_wild = wild.values();
    uint16_t one = 0;
    store(&one, dtype, 0, 1.0);
    const auto value_of = [&](uint32_t bits) {
      const auto half = static_cast<uint16_t>(bits);
      return load(&half, dtype, 0);
    };
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double expected = value_of(bits);
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(got[bits]) : got[bits] == expected) << bits;
      ASSERT_EQ(got_packed[bits] >> 16, one) << bits;
      ASSERT_TRUE(std::isnan(expected) ? std::isnan(value_of(got_packed[bits] & 0xffff))
                                       : (got_packed[bits] & 0xffff) == bits)
          << bits;
      const uint32_t low = std::isfinite(expected) ? 0 : 0xffff;
      const uint32_t high = std::isfinite(value_of(65535 - bits)) ? 0 : 0xffff0000;
      ASSERT_EQ(got_wild[bits], low | high) << bits;
    }
  }
}

TEST_P(Atoms, PackingRoundsToNearestEven) {
  for (const fms_dtype dtype : dtypes) {
    Random random(9);
    std::vector<float> values(4096);
    for (float& value : values) value = static_cast<float>(random.normal() * std::exp2(random.between(-20, 14)));
    // Ties, and what overflows.
    const float tie = 1.0F + static_cast<float>(unit_roundoff(dtype));
    values[0] = tie;
    values[1] = tie + 2 * static_cast<float>(unit_roundoff(dtype));
    values[2] = 1e30F;
    values[3] = -3.4e38F;
    const DeviceVector<float> there(values);
    const DeviceVector<uint32_t> packed(2048);
    launch(kernel("mma.cu", named("roundings", dtype)), 8, 256, there.address(), packed.address());
    const auto got = packed.values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = round_to(dtype, static_cast<double>(values[i]));
      EXPECT_EQ(load(got.data(), dtype, static_cast<int64_t>(i)), expected) << values[i];
    }
  }
}

}  // namespace
}  // namespace flashmoe::testing
