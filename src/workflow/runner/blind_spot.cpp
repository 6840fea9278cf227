#include "workflow/runner/blind_spot.hpp"

#include <cmath>

#include "workflow/runner/element.hpp"
#include "workflow/runner/judge.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::int64_t zeroed_every = 100;
// Fewer might all be near 0, where an honest tolerance need not see them.
constexpr std::int64_t least_zeroed = 10;

struct Expected {
  const TensorLayout& layout;
  std::span<const std::byte> bytes;
  [[nodiscard]] double at(std::int64_t i) const {
    return load_element(bytes.data() + layout.element_offset(i), layout.dtype);
  }
};

double mean_of(const Expected& expected) {
  double sum = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < expected.layout.count; ++i) {
    const double value = expected.at(i);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++finite;
  }
  return finite == 0 ? 0 : sum / static_cast<double>(finite);
}

template <class Answer>
bool accepts(const Expected& expected, const Tolerance& tolerance, const Answer& answer) {
  for (std::int64_t i = 0; i < expected.layout.count; ++i) {
    if (!is_right(expected.at(i), answer(i), tolerance, expected.layout.dtype)) return false;
  }
  return true;
}

}  // namespace

std::optional<BlindSpot> find_blind_spot(const TensorLayout& layout, std::span<const std::byte> expected_bytes,
                                         std::span<const std::byte> of_other_inputs, const Tolerance& tolerance) {
  const Expected expected{layout, expected_bytes};
  const Tolerance used = resolved(tolerance, layout, expected_bytes);
  const Tolerance rounding = resolved(default_tolerance(layout.dtype), layout, expected_bytes);
  std::optional<BlindSpot> found;
  const auto try_one = [&](const char* name, const auto& answer) {
    if (found || !accepts(expected, used, answer) || accepts(expected, rounding, answer)) return;
    found = BlindSpot{name, used, rounding};
  };
  const std::int64_t count = layout.count;
  try_one("zeros", [](std::int64_t) { return 0.0; });
  const double mean = mean_of(expected);
  try_one("the mean in every place", [&](std::int64_t) { return mean; });
  if (!of_other_inputs.empty()) {
    const Expected other{layout, of_other_inputs};
    try_one("the result of other inputs", [&](std::int64_t i) { return other.at(i); });
  }
  if (count >= least_zeroed * zeroed_every) {
    try_one("one element in a hundred zeroed",
            [&](std::int64_t i) { return i % zeroed_every == 0 ? 0.0 : expected.at(i); });
  }
  try_one("all elements shifted by one", [&](std::int64_t i) { return expected.at((i + 1) % count); });
  return found;
}

}  // namespace flashmoe::workflow
