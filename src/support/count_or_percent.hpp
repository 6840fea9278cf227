// "64" or "5%": a number of things, or so much of however many there are.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace flashmoe {

struct CountOrPercent {
  double number = 0;
  bool is_percent = false;
};

// nullopt: neither a whole number above 0 nor a percentage of at most 100.
[[nodiscard]] inline std::optional<CountOrPercent> parse_count_or_percent(std::string_view text) {
  constexpr double most_things = 1e15;  // all of them whole numbers of a double
  CountOrPercent read{.is_percent = text.ends_with('%')};
  if (read.is_percent) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read.number);
  if (error != std::errc{} || end != text.data() + text.size() || !(read.number > 0)) return std::nullopt;
  const bool fits =
      read.is_percent ? read.number <= 100 : read.number <= most_things && read.number == std::floor(read.number);
  return fits ? std::optional(read) : std::nullopt;
}

}  // namespace flashmoe
