#include "workflow/runner/inputs.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "workflow/runner/element.hpp"
#include "workflow/runner/judge.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t drawn_count = 1500;  // more than are drawn at a time, and not a multiple of it

std::vector<std::byte> filled(cudadent_dtype dtype, const std::string& init, std::uint64_t seed) {
  std::vector<std::byte> bytes(drawn_count * bytes_per_element(dtype));
  TensorSpec spec;
  spec.dtype = dtype;
  spec.init = init;
  fill_input(bytes, spec, seed);
  return bytes;
}

// As the header words it, one element at a time: the definition, which no vector instruction may change.
double drawn(const std::string& init, std::uint64_t seed, std::size_t index) {
  const std::uint64_t bits = mix_seed(seed, index);
  if (init == "uniform") return static_cast<double>(bits >> 11) / 9007199254740992.0;
  double sum = 0;
  for (int shift = 0; shift < 64; shift += 16) sum += static_cast<double>((bits >> shift) & 0xFFFF) / 65536;
  return (sum - 2 + 2.0 / 65536) * 1.7320508075688772;
}

TEST(Inputs, AreTheSameOnEveryMachine) {
  for (const cudadent_dtype dtype : {CUDADENT_F64, CUDADENT_F32, CUDADENT_F16, CUDADENT_BF16}) {
    for (const char* init : {"normal", "uniform"}) {
      const std::vector<std::byte> bytes = filled(dtype, init, 42);
      const std::size_t size = bytes_per_element(dtype);
      for (std::size_t i = 0; i < drawn_count; ++i) {
        std::vector<std::byte> one(size);
        store_element(one.data(), dtype, drawn(init, 42, i));
        ASSERT_EQ(std::memcmp(one.data(), bytes.data() + i * size, size), 0) << name_of(dtype) << init << i;
      }
    }
  }
}

TensorLayout matrix(std::int64_t row_stride) {
  return {.name = "y",
          .shape = {3, 4},
          .stride = {row_stride, 1},
          .count = 12,
          .extent = 2 * row_stride + 4,
          .row_major = row_stride == 4};
}

TEST(Inputs, AnElementThatNobodyWroteIsFound) {
  for (const std::int64_t row_stride : {4, 7}) {  // gaps between rows stay as they were
    const TensorLayout layout = matrix(row_stride);
    std::vector<std::byte> bytes(static_cast<std::size_t>(layout.extent) * 4);
    poison(bytes, CUDADENT_F32, 0);
    for (std::int64_t i = 0; i < layout.count; ++i)
      store_element(bytes.data() + layout.element_offset(i), CUDADENT_F32, 1);
    EXPECT_FALSE(find_unwritten(layout, bytes));
    poison(std::span(bytes).subspan(layout.element_offset(6), 4), CUDADENT_F32, 0);
    const auto found = find_unwritten(layout, bytes);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, (std::vector<std::int64_t>{1, 2}));
  }
}

}  // namespace
}  // namespace flashmoe::workflow
