#include "workflow/report/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace flashmoe::workflow {
namespace {

// 1, 2 or 5 times a power of ten.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

Axis Axis::linear(Span values, Span pixels, int marks) {
  if (!(values.to > values.from)) values.to = values.from + std::max(1.0, std::abs(values.from));
  const double step = round_step((values.to - values.from) / std::max(marks, 1));
  Axis axis;
  const double first = std::floor(values.from / step + 1e-9);
  const double last = std::ceil(values.to / step - 1e-9);
  axis.values_ = {first * step, last * step};
  axis.pixels_ = pixels;
  for (double i = first; i <= last; ++i) axis.marks_.push_back(i * step);
  return axis;
}

Axis Axis::logarithmic(Span values, Span pixels) {
  Axis axis;
  axis.is_logarithmic_ = true;
  axis.pixels_ = pixels;
  // It ends at 1, 2 or 5 of a decade; where there are few decades these are marks, too.
  const bool is_short = values.to / values.from < 50;
  const auto first = static_cast<int>(std::floor(std::log10(values.from) + 1e-9));
  const auto last = static_cast<int>(std::ceil(std::log10(values.to) - 1e-9));
  struct Round {
    double value;
    bool is_mark;
  };
  std::vector<Round> all;
  for (int power = first; power <= last; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) all.push_back({factor * std::pow(10, power), is_short || factor == 1});
  }
  const auto is_outside = [&](std::size_t i) {
    const bool is_below = i + 1 < all.size() && all[i + 1].value <= values.from * (1 + 1e-9);
    return is_below || (i > 0 && all[i - 1].value >= values.to * (1 - 1e-9));
  };
  axis.values_ = {};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_outside(i)) continue;
    if (axis.values_.from == 0) axis.values_.from = all[i].value;
    axis.values_.to = all[i].value;
    if (all[i].is_mark) axis.marks_.push_back(all[i].value);
  }
  return axis;
}

double Axis::at(double value) const {
  const double share = is_logarithmic_ ? std::log(value / values_.from) / std::log(values_.to / values_.from)
                                       : (value - values_.from) / (values_.to - values_.from);
  return pixels_.from + share * (pixels_.to - pixels_.from);
}

std::string figure_text(double value) {
  struct Unit {
    double least;
    const char* name;
  };
  constexpr std::array units{Unit{1e12, "T"}, Unit{1e9, "G"}, Unit{1e6, "M"}, Unit{1e3, "k"}};
  for (const Unit& unit : units) {
    if (std::abs(value) >= 0.9995 * unit.least) return fmt::format("{:.3g}{}", value / unit.least, unit.name);
  }
  return fmt::format("{:.3g}", std::abs(value) < 1e-12 ? 0 : value);
}

}  // namespace flashmoe::workflow
