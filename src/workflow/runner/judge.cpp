#include "workflow/runner/judge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "workflow/runner/element.hpp"

namespace flashmoe::workflow {
namespace {

// The RMS of normal numbers is 1.5 of their medians, of exponential ones 2: usual results are judged by their RMS.
constexpr double most_medians = 4;

double largest_finite(cudadent_dtype dtype) {
  if (dtype == CUDADENT_F16) return 65504;
  if (dtype == CUDADENT_BF16) return 3.3895313892515355e38;
  if (dtype == CUDADENT_F32) return 3.4028234663852886e38;
  return 1.7976931348623157e308;
}

// Scores of 10,000 are off by hundredths in fp32 whoever adds them up, and where two of a row are nearly the same an
// exp() makes one or two hundredths of the result of it. What such inputs are to find is wrong altogether.
constexpr double unusual_size = 4;

double allowed_at(double expected, const Tolerance& tolerance) {
  return tolerance.absolute + tolerance.relative * (std::isfinite(expected) ? std::fabs(expected) : 0.0);
}

void include(Judgement& judgement, const std::vector<std::int64_t>& position) {
  if (judgement.low.empty()) {
    judgement.low = position;
    judgement.high = position;
    return;
  }
  for (std::size_t axis = 0; axis < position.size(); ++axis) {
    judgement.low[axis] = std::min(judgement.low[axis], position[axis]);
    judgement.high[axis] = std::max(judgement.high[axis], position[axis]);
  }
}

// What an element adds to the largest difference: a NaN or an infinity in the place of a number is no small one.
double difference(double want, double have) {
  if (std::isnan(want) && std::isnan(have)) return 0;
  return want == have ? 0 : std::fabs(have - want);
}

}  // namespace

double larger_difference(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

Tolerance resolved(const Tolerance& tolerance, const TensorLayout& layout, std::span<const std::byte> expected) {
  if (!tolerance.by_size) return tolerance;
  long double squares = 0;  // a double squared may be none
  std::int64_t finite = 0;
  std::vector<double> sizes;  // of those that are not 0
  for (std::int64_t i = 0; i < layout.count; ++i) {
    const double value = load_element(expected.data() + layout.element_offset(i), layout.dtype);
    if (!std::isfinite(value)) continue;
    squares += static_cast<long double>(value) * value;
    ++finite;
    if (value != 0) sizes.push_back(std::fabs(value));
  }
  // Where all is 0 there is no size to go by; below the smallest number of the type there is nothing to round to.
  double size = 1;
  if (!sizes.empty()) {
    const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
    std::nth_element(sizes.begin(), middle, sizes.end());
    // Where results span decades the RMS is that of a few, and most others could be zeros beside them.
    size = std::min(static_cast<double>(std::sqrt(squares / static_cast<long double>(finite))), most_medians * *middle);
  }
  const double least = is_floating(layout.dtype) ? smallest_denormal(layout.dtype) : 0;
  return {std::max(tolerance.absolute * size, least), tolerance.relative};
}

bool is_right(double expected, double got, const Tolerance& tolerance, cudadent_dtype dtype) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isnan(got)) return false;
  if (std::isinf(expected)) {
    if (expected == got) return true;
    // Where rounding decides between the largest number and infinity, either is right.
    return is_floating(dtype) && std::isfinite(got) && std::signbit(got) == std::signbit(expected) &&
           std::fabs(got) >= largest_finite(dtype) * (1 - tolerance.relative);
  }
  if (std::isinf(got)) {
    return is_floating(dtype) && std::signbit(got) == std::signbit(expected) &&
           std::fabs(expected) >= largest_finite(dtype) * (1 - tolerance.relative);
  }
  return std::fabs(got - expected) <= allowed_at(expected, tolerance);
}

Judgement judge(const TensorLayout& layout, std::span<const std::byte> expected, std::span<const std::byte> got,
                const Tolerance& declared, bool magnitude_matters) {
  Judgement judgement;
  judgement.tensor = layout.name;
  judgement.count = layout.count;
  Tolerance tolerance = declared;
  if (magnitude_matters) {
    double scale = 1;
    for (std::int64_t i = 0; i < layout.count; ++i) {
      const double value = std::fabs(load_element(expected.data() + layout.element_offset(i), layout.dtype));
      if (std::isfinite(value)) scale = std::max(scale, value);
    }
    tolerance = {unusual_size * declared.absolute * scale, unusual_size * declared.relative};
  } else {
    tolerance = resolved(declared, layout, expected);
  }
  for (std::int64_t i = 0; i < layout.count; ++i) {
    const std::size_t offset = layout.element_offset(i);
    const double want = load_element(expected.data() + offset, layout.dtype);
    const double have = load_element(got.data() + offset, layout.dtype);
    const bool unwritten = is_poison(got.data() + offset, layout.dtype);
    judgement.max_diff = larger_difference(judgement.max_diff, difference(want, have));
    if (!unwritten && is_right(want, have, tolerance, layout.dtype)) continue;
    const auto position = layout.position(i);
    if (judgement.wrong == 0) {
      judgement.first_wrong = position;
      judgement.expected = want;
      judgement.got = have;
      judgement.allowed = allowed_at(want, tolerance);
    }
    ++judgement.wrong;
    if (unwritten) ++judgement.unwritten;
    include(judgement, position);
  }
  return judgement;
}

std::optional<std::vector<std::int64_t>> find_unwritten(const TensorLayout& layout, std::span<const std::byte> got) {
  // Nearly always all is written; in the gaps of strides nothing ever is.
  if (layout.row_major && !any_poison(got, layout.dtype)) return std::nullopt;
  // From the end: what is written last is what a late or a short kernel leaves.
  for (std::int64_t i = layout.count; i-- > 0;) {
    if (is_poison(got.data() + layout.element_offset(i), layout.dtype)) return layout.position(i);
  }
  return std::nullopt;
}

std::string coordinates_text(const std::vector<std::int64_t>& position) {
  return fmt::format("[{}]", fmt::join(position, ", "));
}

std::string describe(const Judgement& judgement) {
  if (judgement.ok()) {
    return fmt::format("{}: all {} right, max_diff {:.3g}", judgement.tensor, judgement.count, judgement.max_diff);
  }
  const std::string where = judgement.tensor + coordinates_text(judgement.first_wrong);
  const std::string many =
      fmt::format("{} of {} wrong, max_diff {:.3g}", judgement.wrong, judgement.count, judgement.max_diff);
  if (judgement.unwritten == judgement.wrong) {
    return fmt::format("{}: expected {:.6g}, never written; {} of {} elements are unwritten", where, judgement.expected,
                       judgement.unwritten, judgement.count);
  }
  return fmt::format("{}: expected {:.6g}, got {:.6g} (off by {:.3g}, allowed {:.3g}); {}", where, judgement.expected,
                     judgement.got, std::fabs(judgement.got - judgement.expected), judgement.allowed, many);
}

}  // namespace flashmoe::workflow
