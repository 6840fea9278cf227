// The product against its definition in double, and the short floating-point formats against all of their values.
#include "vgpu/cublas/product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "vgpu/cublas/numbers.hpp"

namespace flashmoe::vgpu::cublas {
namespace {

template <class Short>
void every_value_returns() {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Short one{static_cast<std::uint16_t>(bits)};
    Short back;
    store(number(one), back);
    if (std::isnan(number(one)))
      EXPECT_TRUE(std::isnan(number(back))) << bits;
    else
      EXPECT_EQ(back.bits, one.bits);
  }
}

TEST(Numbers, EveryShortValueReturns) {
  every_value_returns<Half>();
  every_value_returns<Bfloat16>();
  EXPECT_EQ(number(Half{0x3c00}), 1.0F);
  EXPECT_EQ(number(Half{0x0001}), 0x1p-24F);
  EXPECT_EQ(number(Half{0xfbff}), -65504.0F);
  EXPECT_EQ(number(Bfloat16{0x4049}), 3.140625F);
}

// Halfway between two neighbours goes to the even one, anything beyond to the nearer one; positive finite values.
template <class Short>
void rounds_to_the_nearest(std::uint16_t infinity) {
  for (std::uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const Short lower{bits}, upper{static_cast<std::uint16_t>(bits + 1)};
    const float middle = number(lower) / 2 + number(upper) / 2;
    Short at, below, above;
    store(middle, at);
    store(std::nextafter(middle, 0.0F), below);
    store(std::nextafter(middle, std::numeric_limits<float>::max()), above);
    ASSERT_EQ(at.bits, bits % 2 == 0 ? lower.bits : upper.bits);
    ASSERT_EQ(below.bits, lower.bits);
    ASSERT_EQ(above.bits, upper.bits);
  }
}
TEST(Numbers, RoundsToTheNearestAndThenToEven) {
  rounds_to_the_nearest<Half>(0x7c00);
  rounds_to_the_nearest<Bfloat16>(0x7f80);
  Half overflow;
  store(65520.0F, overflow);
  EXPECT_EQ(overflow.bits, 0x7c00);
}

struct Case {
  std::int64_t m, n, k;
  int type, result_type;
  bool a_transposed, b_transposed;
  double alpha, beta;
};

// Half of the distance between neighbours at 1.
double rounding_of(int type) {
  return type == CUDA_R_16F ? 0x1p-11 : type == CUDA_R_16BF ? 0x1p-8 : type == CUDA_R_32F ? 0x1p-24 : 0x1p-53;
}

class Matrices {
 public:
  Matrices(int type, std::int64_t rows, std::int64_t columns, bool is_transposed, unsigned seed)
      : type_(type), bytes_(bytes_of(type)) {
    const std::int64_t inner = is_transposed ? columns : rows, outer = is_transposed ? rows : columns;
    const std::int64_t ld = inner + 3;  // a gap, filled with what would be seen
    data_.resize(static_cast<std::size_t>(ld * outer) * bytes_);
    for (std::int64_t i = 0; i < ld * outer; ++i) write_scalar(type, 1e4, at(i));
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> values(-1, 1);
    for (std::int64_t j = 0; j < outer; ++j)
      for (std::int64_t i = 0; i < inner; ++i) write_scalar(type, values(random), at(j * ld + i));
    row_step_ = is_transposed ? ld : 1;
    column_step_ = is_transposed ? 1 : ld;
  }
  [[nodiscard]] double operator()(std::int64_t row, std::int64_t column) const {
    return read_scalar(type_, const_cast<Matrices*>(this)->at(row * row_step_ + column * column_step_));
  }
  [[nodiscard]] Matrix matrix() const { return {data_.data(), type_, row_step_, column_step_}; }

 private:
  void* at(std::int64_t element) { return data_.data() + static_cast<std::size_t>(element) * bytes_; }
  int type_;
  std::size_t bytes_;
  std::int64_t row_step_ = 0, column_step_ = 0;
  std::vector<std::byte> data_{};
};

void holds(const Case& one) {
  const Matrices a(one.type, one.m, one.k, one.a_transposed, 1), b(one.type, one.k, one.n, one.b_transposed, 2);
  const Matrices c(one.result_type, one.m, one.n, false, 3), d(one.result_type, one.m, one.n, false, 4);
  const bool in_double = one.type == CUDA_R_64F;
  multiply({.m = one.m,
            .n = one.n,
            .k = one.k,
            .a = a.matrix(),
            .b = b.matrix(),
            .c = c.matrix(),
            .d = d.matrix(),
            .alpha = one.alpha,
            .beta = one.beta,
            .sums_in_double = in_double});
  const double unit = in_double ? 0x1p-53 : 0x1p-24;
  for (std::int64_t i = 0; i < one.m; ++i)
    for (std::int64_t j = 0; j < one.n; ++j) {
      long double sum = 0, magnitude = 0;
      for (std::int64_t p = 0; p < one.k; ++p) {
        sum += static_cast<long double>(a(i, p)) * b(p, j);
        magnitude += std::abs(static_cast<long double>(a(i, p)) * b(p, j));
      }
      const double right = static_cast<double>(one.alpha * sum) + one.beta * c(i, j);
      // A product and a sum for each k, then alpha, beta and their sum; last the result's own rounding.
      const double sums = static_cast<double>(one.k + 4) * unit *
                          (std::abs(one.alpha) * static_cast<double>(magnitude) + std::abs(one.beta * c(i, j)));
      ASSERT_NEAR(d(i, j), right, sums + rounding_of(one.result_type) * (std::abs(right) + sums) + 0x1p-25)
          << i << ", " << j << " of " << one.m << " x " << one.n << " x " << one.k << ", type " << one.type;
    }
}

TEST(Product, IsItsDefinition) {
  for (const int type : {CUDA_R_32F, CUDA_R_64F, CUDA_R_16F, CUDA_R_16BF})
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        holds({33, 19, 70, type, type, a_transposed, b_transposed, 1, 0});
        holds({1, 7, 5, type, type, a_transposed, b_transposed, -0.5, 2});
        holds({16, 6, 1, type, type, a_transposed, b_transposed, 2, 1});
      }
  holds({20, 20, 33, CUDA_R_16F, CUDA_R_32F, false, true, 1, 1});
  holds({20, 20, 33, CUDA_R_16BF, CUDA_R_32F, true, false, 1, 1});
}

TEST(Product, OfNothingIsBetaTimesC) {
  holds({5, 4, 0, CUDA_R_32F, CUDA_R_32F, false, false, 1, 0.5});
}

// Where beta is 0, C may hold anything.
TEST(Product, DoesNotReadCWithoutBeta) {
  const float a = 2, b = 3;
  float d = std::numeric_limits<float>::quiet_NaN();
  multiply(
      {.m = 1, .n = 1, .k = 1, .a = {&a, CUDA_R_32F, 1, 1}, .b = {&b, CUDA_R_32F, 1, 1}, .d = {&d, CUDA_R_32F, 1, 1}});
  EXPECT_EQ(d, 6.0F);
}

TEST(Product, IntegersAreExact) {
  std::vector<std::int8_t> a(1000, -128), b(1000, -128);
  std::int32_t d = 0;
  multiply({.m = 1,
            .n = 1,
            .k = 1000,
            .a = {a.data(), CUDA_R_8I, 1, 1},
            .b = {b.data(), CUDA_R_8I, 1, 1},
            .d = {&d, CUDA_R_32I, 1, 1},
            .sums_in_double = true});
  EXPECT_EQ(d, 1000 * 128 * 128);
}

TEST(Product, BiasAndActivationComeLast) {
  const float a[2] = {1, 1}, b = 1, bias[2] = {-3, 1};
  float d[2] = {};
  Product product{.m = 2,
                  .n = 1,
                  .k = 1,
                  .a = {a, CUDA_R_32F, 1, 2},
                  .b = {&b, CUDA_R_32F, 1, 1},
                  .d = {d, CUDA_R_32F, 1, 2},
                  .bias = bias,
                  .bias_type = CUDA_R_32F,
                  .activation = Activation::relu};
  multiply(product);
  EXPECT_EQ(d[0], 0.0F);
  EXPECT_EQ(d[1], 2.0F);
  product.activation = Activation::gelu;
  multiply(product);
  EXPECT_FLOAT_EQ(d[1], static_cast<float>(1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (2 + 0.044715 * 8))));
}

}  // namespace
}  // namespace flashmoe::vgpu::cublas
