#include "workflow/runner/blind_spot.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "workflow/runner/element.hpp"
#include "workflow/runner/judge.hpp"

namespace flashmoe::workflow {
namespace {

struct Tensor {
  TensorLayout layout;
  std::vector<std::byte> bytes;

  Tensor(cudadent_dtype dtype, std::int64_t count, const std::function<double(std::int64_t)>& value) {
    layout = {.name = "y", .role = TensorRole::output, .dtype = dtype, .shape = {count}, .stride = {1}};
    layout.count = layout.extent = count;
    layout.bytes = static_cast<std::size_t>(count) * bytes_per_element(dtype);
    bytes.resize(layout.bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      store_element(bytes.data() + layout.element_offset(i), dtype, value(i));
    }
  }

  std::string blind_to(const Tolerance& tolerance, const std::vector<std::byte>& other = {}) const {
    const auto found = find_blind_spot(layout, bytes, other, tolerance);
    return found ? found->accepts : "";
  }
  std::string blind_by_default() const { return blind_to(default_tolerance(layout.dtype)); }
};

double wave(std::int64_t i) {
  return std::sin(static_cast<double>(i) * 1.7) + 0.3;
}

TEST(BlindSpot, ZerosPassForSmallResultsUnderAnAbsoluteTolerance) {
  const Tensor softmax(CUDADENT_F16, 40'000, [](std::int64_t i) { return (1 + 0.5 * wave(i)) / 40'000; });
  EXPECT_EQ(softmax.blind_to({2e-3, 2e-3}), "zeros");
  const auto found = find_blind_spot(softmax.layout, softmax.bytes, {}, {2e-3, 2e-3});
  ASSERT_TRUE(found);
  EXPECT_EQ(softmax.blind_to(found->needed), "") << "what it advises is enough";
  EXPECT_EQ(softmax.blind_by_default(), "");
}

TEST(BlindSpot, NamesWhatIsAccepted) {
  const Tensor near_mean(CUDADENT_F32, 1000, [](std::int64_t i) { return 5 + 0.01 * wave(i); });
  EXPECT_EQ(near_mean.blind_to({0.1, 0}), "the mean in every place");
  const Tensor steep(CUDADENT_F32, 1000, [](std::int64_t i) { return 0.1 * static_cast<double>(i); });
  EXPECT_EQ(steep.blind_to({0, 1e-5}), "");
  const Tensor one_high(CUDADENT_F32, 1000, [](std::int64_t i) { return i == 7 ? 50.0 : 0.01 * wave(i); });
  EXPECT_EQ(one_high.blind_to({0.1, 0}), "one element in a hundred zeroed");
  const Tensor slope(CUDADENT_F32, 500,
                     [](std::int64_t i) { return 10 * std::sin(static_cast<double>(i) * 0.0125663706); });
  EXPECT_EQ(slope.blind_to({0.2, 0}), "all elements shifted by one");
  const Tensor here(CUDADENT_F32, 500, wave);
  const Tensor there(CUDADENT_F32, 500, [](std::int64_t i) { return wave(i) + 0.01; });
  EXPECT_EQ(here.blind_to({0.1, 0}, there.bytes), "the result of other inputs");
}

// What cannot be told from the expectation is no fault of the tolerance.
TEST(BlindSpot, ScalarSparseConstantIntegerAndEmptyResultsAreHonest) {
  EXPECT_EQ(Tensor(CUDADENT_F32, 1, [](std::int64_t) { return 3.0; }).blind_by_default(), "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 5000, [](std::int64_t) { return 0.25; }).blind_by_default(), "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 5000, [](std::int64_t i) { return i == 17 ? 1.0 : 0.0; }).blind_by_default(), "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 5000, [](std::int64_t) { return 0.0; }).blind_to({1e-3, 0}), "");
  EXPECT_EQ(Tensor(CUDADENT_I32, 5000, [](std::int64_t i) { return static_cast<double>(i % 3); }).blind_by_default(),
            "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 0, wave).blind_to({1, 1}), "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 5000, [](std::int64_t) { return NAN; }).blind_by_default(), "");
  EXPECT_EQ(Tensor(CUDADENT_F32, 64, wave).blind_to({0.05, 0.05}), "") << "coarse, but it sees";
}

TEST(Tolerance, BySizeFollowsTheResults) {
  const Tensor small(CUDADENT_F32, 100, [](std::int64_t i) { return 1e-7 * wave(i); });
  const Tensor off(CUDADENT_F32, 100, [](std::int64_t i) { return 1e-7 * wave(i) + 1e-11; });
  const Tensor right(CUDADENT_F32, 100, [](std::int64_t i) { return 1e-7 * wave(i) + 1e-13; });
  const Tolerance by_size = default_tolerance(CUDADENT_F32);
  EXPECT_FALSE(judge(small.layout, small.bytes, off.bytes, by_size).ok());
  EXPECT_TRUE(judge(small.layout, small.bytes, right.bytes, by_size).ok());
  EXPECT_LT(resolved(by_size, small.layout, small.bytes).absolute, 1e-11);
  // The neighbours of a number that the type can hardly hold.
  const Tensor tiny(CUDADENT_F16, 100, [](std::int64_t) { return 3 * 0x1p-24; });
  const Tensor next(CUDADENT_F16, 100, [](std::int64_t) { return 4 * 0x1p-24; });
  EXPECT_TRUE(judge(tiny.layout, tiny.bytes, next.bytes, default_tolerance(CUDADENT_F16)).ok());
}

// exp(6 x) of normal numbers: the RMS is that of the largest few.
TEST(Tolerance, SmallResultsBesideLargeOnesCount) {
  const auto value = [](std::int64_t i) { return std::exp(12 * std::sin(static_cast<double>(i) * 1.7)); };
  const Tensor wide(CUDADENT_F32, 4096, value);
  const Tensor small_are_zero(CUDADENT_F32, 4096, [&](std::int64_t i) { return value(i) < 0.1 ? 0 : value(i); });
  const Tolerance usual = default_tolerance(CUDADENT_F32);
  EXPECT_TRUE(judge(wide.layout, wide.bytes, wide.bytes, usual).ok());
  EXPECT_FALSE(judge(wide.layout, wide.bytes, small_are_zero.bytes, usual).ok());
}

TEST(Judge, MaxDiffCountsNaN) {
  const Tensor expected(CUDADENT_F32, 10, wave);
  const Tensor got(CUDADENT_F32, 10, [](std::int64_t i) { return i == 3 ? NAN : wave(i) + (i == 5 ? 0.5 : 0); });
  EXPECT_TRUE(std::isnan(judge(expected.layout, expected.bytes, got.bytes, {1e-3, 0}).max_diff));
  const Tensor infinite(CUDADENT_F32, 10, [](std::int64_t i) { return i == 3 ? INFINITY : wave(i); });
  EXPECT_TRUE(std::isinf(judge(expected.layout, expected.bytes, infinite.bytes, {1e-3, 0}).max_diff));
  EXPECT_EQ(judge(infinite.layout, infinite.bytes, infinite.bytes, {1e-3, 0}).max_diff, 0);
}

}  // namespace
}  // namespace flashmoe::workflow
