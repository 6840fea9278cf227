// Mistakes that show in the numbers alone: unwritten, scaled, shifted, transposed, a part only.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workflow/gates/diagnose.hpp"
#include "workflow/runner/element.hpp"

namespace flashmoe::workflow {
namespace {

struct Pair {
  const TensorLayout& layout;
  const std::vector<std::byte>& expected;
  const std::vector<std::byte>& got;
  Tolerance tolerance;

  [[nodiscard]] double want(std::int64_t i) const {
    return load_element(expected.data() + layout.element_offset(i), layout.dtype);
  }
  [[nodiscard]] double have(std::int64_t i) const {
    return load_element(got.data() + layout.element_offset(i), layout.dtype);
  }
  [[nodiscard]] bool close(double a, double b) const {
    return std::fabs(a - b) <= tolerance.absolute + tolerance.relative * std::fabs(b) ||
           (std::isnan(a) && std::isnan(b));
  }
};

// The one factor between all values, or 0.
double common_factor(const Pair& pair) {
  double numerator = 0;
  double denominator = 0;
  for (std::int64_t i = 0; i < pair.layout.count; ++i) {
    const double want = pair.want(i);
    const double have = pair.have(i);
    if (!std::isfinite(want) || !std::isfinite(have)) return 0;
    numerator += want * have;
    denominator += want * want;
  }
  if (denominator == 0) return 0;
  const double factor = numerator / denominator;
  if (std::fabs(factor) < 1e-6 || std::fabs(factor - 1) < 1e-3) return 0;
  for (std::int64_t i = 0; i < pair.layout.count; ++i) {
    const double want = factor * pair.want(i);
    // Rounding of the narrow type, and the allowed error, grow with the factor.
    const double allowed =
        (pair.tolerance.absolute + 2e-3 * std::fabs(pair.want(i))) * std::max(1.0, std::fabs(factor));
    if (std::fabs(pair.have(i) - want) > allowed) return 0;
  }
  return factor;
}

// Elements in the order of memory as if axes a and b were swapped.
bool is_swapped(const Pair& pair, std::size_t a, std::size_t b) {
  auto shape = pair.layout.shape;
  std::swap(shape[a], shape[b]);
  for (std::int64_t i = 0; i < pair.layout.count; ++i) {
    auto position = pair.layout.position(i);
    std::swap(position[a], position[b]);
    std::int64_t linear = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) linear = linear * shape[axis] + position[axis];
    if (!pair.close(pair.have(linear), pair.want(i))) return false;
  }
  return true;
}

bool is_shifted(const Pair& pair, std::int64_t by) {
  std::int64_t compared = 0;
  for (std::int64_t i = 0; i < pair.layout.count; ++i) {
    if (i + by < 0 || i + by >= pair.layout.count) continue;
    if (!pair.close(pair.have(i), pair.want(i + by))) return false;
    ++compared;
  }
  return compared > 1;
}

Diagnosis part_only(const Judgement& judgement, const TensorLayout& layout) {
  for (std::size_t axis = 0; axis < layout.shape.size(); ++axis) {
    const std::int64_t size = layout.shape[axis];
    if (size < 2 || judgement.low.empty()) continue;
    const bool tail = judgement.low[axis] > 0 && judgement.high[axis] == size - 1;
    const bool one = judgement.low[axis] == judgement.high[axis];
    if (!tail && !one) continue;
    const std::string where = one && !tail ? fmt::format("at index {}", judgement.low[axis])
                                           : fmt::format("from index {} on", judgement.low[axis]);
    return {"pattern", "part",
            fmt::format("'{}' is wrong only {} of axis {} (size {})", layout.name, where, axis, size),
            "check the bounds of that loop: the last, partial tile is the usual cause"};
  }
  return {};
}

}  // namespace

Diagnosis find_pattern(const WrongResult& wrong, const Project& project) {
  for (const Judgement& judgement : wrong.judgements) {
    const auto found = std::find_if(wrong.layout.tensors.begin(), wrong.layout.tensors.end(),
                                    [&](const TensorLayout& t) { return t.name == judgement.tensor; });
    const auto index = static_cast<std::size_t>(found - wrong.layout.tensors.begin());
    const TensorLayout& layout = *found;
    if (judgement.unwritten == judgement.count) {
      return {"pattern", "unwritten", fmt::format("'{}' is never written", layout.name),
              fmt::format("write '{}' through call->tensors[{}].data with its dtype {} and strides", layout.name, index,
                          name_of(layout.dtype))};
    }
    const Pair pair{layout, wrong.expected[index], wrong.got[index],
                    resolved(project.tensors[index].tolerance, layout, wrong.expected[index])};
    if (judgement.unwritten == 0) {
      if (const double factor = common_factor(pair); factor != 0) {
        return {"pattern", "factor",
                fmt::format("every element of '{}' is {:.4g} times the expected value", layout.name, factor),
                "a factor is missing or applied twice"};
      }
      for (std::size_t a = 0; a < layout.shape.size(); ++a) {
        for (std::size_t b = a + 1; b < layout.shape.size(); ++b) {
          if (layout.shape[a] < 2 || layout.shape[b] < 2 || !is_swapped(pair, a, b)) continue;
          return {"pattern", "swapped_output",
                  fmt::format("'{}' is written with axes {} and {} swapped", layout.name, a, b),
                  fmt::format("use stride[{}] for axis {} and stride[{}] for axis {}", a, a, b, b)};
        }
      }
      for (const std::int64_t by : {-1, 1}) {
        if (is_shifted(pair, by)) {
          return {
              "pattern", "shifted",
              fmt::format("'{}' is shifted by one element {}", layout.name, by < 0 ? "to the right" : "to the left"),
              "the index of the output is off by one"};
        }
      }
    }
    if (Diagnosis part = part_only(judgement, layout); !part.kind.empty()) return part;
  }
  return {};
}

}  // namespace flashmoe::workflow
