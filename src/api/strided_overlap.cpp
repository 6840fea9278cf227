// A common byte of a and b is a solution of
//
//   a.base + sum(a.stride * i) + x  =  b.base + sum(b.stride * j) + y,     0 <= x < a.run_bytes, 0 <= y < b.run_bytes
//
// or, with axes of equal stride taken together, of sum(stride * t) within an interval, each t between two bounds. The
// largest stride goes first: of it, only the few t count whose rest the smaller strides can make up for. In layouts
// that nest (every stride at least as long as all that is inside of it) those are one or two.
#include "api/strided_overlap.hpp"

#include <algorithm>
#include <numeric>

namespace flashmoe::api {
namespace {

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

int64_t ceil_divide(int64_t a, int64_t b) {
  return -floor_divide(-a, b);
}

class Search {
 public:
  Search(const StridedBytes& a, const StridedBytes& b) {
    for (const StridedAxis& axis : a.axes) add(axis.stride_bytes, 0, axis.count - 1);
    for (const StridedAxis& axis : b.axes) add(axis.stride_bytes, -(axis.count - 1), 0);
    std::sort(terms_, terms_ + count_, [](const Term& x, const Term& y) { return x.stride > y.stride; });
    for (int k = count_ - 1; k >= 0; --k) {
      reach_[k].low = reach_[k + 1].low + terms_[k].stride * terms_[k].low;
      reach_[k].high = reach_[k + 1].high + terms_[k].stride * terms_[k].high;
      divisor_[k] = std::gcd(divisor_[k + 1], terms_[k].stride);
    }
  }

  // Whether the terms from the k-th on can add up to something in [low, high].
  bool finds(int k, int64_t low, int64_t high) {
    if (k == count_) return low <= 0 && 0 <= high;
    if (--steps_left_ < 0) return true;
    if (low > reach_[k].high || high < reach_[k].low) return false;
    if (floor_divide(high, divisor_[k]) * divisor_[k] < low) return false;
    const Term& term = terms_[k];
    const int64_t first = std::max(term.low, ceil_divide(low - reach_[k + 1].high, term.stride));
    const int64_t last = std::min(term.high, floor_divide(high - reach_[k + 1].low, term.stride));
    for (int64_t t = first; t <= last; ++t) {
      if (finds(k + 1, low - term.stride * t, high - term.stride * t)) return true;
    }
    return false;
  }

 private:
  static constexpr int max_terms = 2 * StridedBytes::max_axes;
  struct Term {
    int64_t stride, low, high;  // low <= t <= high
  };
  struct Interval {
    int64_t low, high;
  };

  void add(int64_t stride, int64_t low, int64_t high) {
    if (stride == 0 || low == high) return;
    for (int k = 0; k < count_; ++k) {
      if (terms_[k].stride != stride) continue;
      terms_[k].low += low;
      terms_[k].high += high;
      return;
    }
    terms_[count_++] = {stride, low, high};
  }

  Term terms_[max_terms] = {};
  int count_ = 0;
  Interval reach_[max_terms + 1] = {};     // of the terms from the k-th on
  int64_t divisor_[max_terms + 1] = {};    // what all of their sums are multiples of
  int64_t steps_left_ = int64_t{1} << 18;  // a millisecond or two
};

}  // namespace

bool StridedBytes::is_same(const StridedBytes& other) const {
  const auto is_same_axis = [](const StridedAxis& a, const StridedAxis& b) {
    return a.count == b.count && (a.count == 1 || a.stride_bytes == b.stride_bytes);
  };
  return base == other.base && run_bytes == other.run_bytes &&
         std::equal(axes, axes + max_axes, other.axes, is_same_axis);
}

bool have_common_bytes(const StridedBytes& a, const StridedBytes& b) {
  if (a.is_empty() || b.is_empty() || a.end() <= b.base || b.end() <= a.base) return false;
  const auto distance = static_cast<int64_t>(b.base - a.base);
  return Search(a, b).finds(0, distance - (a.run_bytes - 1), distance + (b.run_bytes - 1));
}

}  // namespace flashmoe::api
