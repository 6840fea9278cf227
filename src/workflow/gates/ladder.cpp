#include "workflow/gates/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace flashmoe::workflow {
namespace {

constexpr int columns = 60;
constexpr double room_behind = 1.1;  // the last rung and the interval are not at the very end

}  // namespace

std::vector<std::string> ladder_lines(const std::vector<double>& ladder, const RatioFacts& ratio) {
  if (ladder.empty() || !std::isfinite(ratio.mean)) return {};
  // An interval may be unbounded, or so far out that the rungs would be one mark: then the bar ends where it stands.
  const double most = 3 * ladder.back();
  const double upper = std::isfinite(ratio.upper) ? ratio.upper : most;
  const double end = room_behind * std::clamp(upper, ladder.back(), std::max(most, ratio.mean));
  const auto column = [&](double value) {
    return std::clamp(static_cast<int>(std::lround(value / end * (columns - 1))), 0, columns - 1);
  };
  std::vector<std::string> bar(columns, "─");
  std::string numbers(columns + 8, ' ');
  std::size_t free_from = 0;
  for (const double rung : ladder) {
    const auto at = static_cast<std::size_t>(column(rung));
    bar[at] = "┴";
    const std::string number = fmt::format("{:g}", rung);
    const std::size_t begin = at >= number.size() / 2 ? at - number.size() / 2 : 0;
    if (begin < free_from) continue;
    numbers.replace(begin, number.size(), number);
    free_from = begin + number.size() + 1;
  }
  const int first = column(ratio.lower);
  const int last = column(upper);
  for (int at = first; at <= last; ++at) {
    std::string& one = bar[static_cast<std::size_t>(at)];
    one = one == "┴" ? "┷" : "━";
  }
  if (last > first) {
    bar[static_cast<std::size_t>(first)] = "┝";
    bar[static_cast<std::size_t>(last)] = upper > end ? "▶" : "┥";
  }
  bar[static_cast<std::size_t>(column(ratio.mean))] = "●";
  std::string line;
  for (const std::string& one : bar) line += one;
  numbers.erase(numbers.find_last_not_of(' ') + 1);
  return {line, numbers};
}

}  // namespace flashmoe::workflow
