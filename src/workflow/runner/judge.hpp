// Is this tensor right? Compares what a kernel wrote with what the reference says, element by element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {

struct Judgement {
  std::string tensor;
  std::int64_t count = 0;
  std::int64_t wrong = 0;                 // unwritten ones included
  std::int64_t unwritten = 0;             // still the poison the controller put there
  double max_diff = 0;                    // NaN where one stands in the place of a number
  std::vector<std::int64_t> first_wrong;  // its coordinates
  double expected = 0, got = 0;           // there
  double allowed = 0;                     // there
  std::vector<std::int64_t> low, high;    // the box that holds all wrong elements
  [[nodiscard]] bool ok() const { return wrong == 0; }
};

// The tolerance in numbers: one that goes by size takes the RMS of what is expected, or four medians.
[[nodiscard]] Tolerance resolved(const Tolerance& tolerance, const TensorLayout& layout,
                                 std::span<const std::byte> expected);
// One element, by a resolved tolerance.
[[nodiscard]] bool is_right(double expected, double got, const Tolerance& tolerance, cudadent_dtype dtype);
// Of two max_diff; NaN is the larger one.
[[nodiscard]] double larger_difference(double a, double b);

// NaN matches NaN (but never poison), an infinity the same infinity; the largest finite value matches an expected
// infinity of a narrow type within the tolerance. `magnitude_matters`: the absolute tolerance is relative to the
// largest expected value and both are wider, for inputs of unusual size.
[[nodiscard]] Judgement judge(const TensorLayout& layout, std::span<const std::byte> expected,
                              std::span<const std::byte> got, const Tolerance& declared,
                              bool magnitude_matters = false);

// Coordinates of one element nobody wrote.
[[nodiscard]] std::optional<std::vector<std::int64_t>> find_unwritten(const TensorLayout& layout,
                                                                      std::span<const std::byte> got);

// "o[0, 3, 17, 2]: expected 0.1934, got 4.91 (off by 4.72, allowed 0.01); 512 of 8192 wrong"
[[nodiscard]] std::string describe(const Judgement& judgement);
[[nodiscard]] std::string coordinates_text(const std::vector<std::int64_t>& position);

}  // namespace flashmoe::workflow
