// A figure and who says so.
#pragma once

#include <string_view>

namespace flashmoe {

struct Fact {
  double value = 0;           // 0: unknown
  std::string_view source{};  // empty: nobody who could be trusted was found, and it is printed as "unverified"
  [[nodiscard]] constexpr bool known() const { return value > 0; }
  [[nodiscard]] constexpr bool verified() const { return known() && !source.empty(); }
  // "unknown", "unverified", or the source.
  [[nodiscard]] constexpr std::string_view standing() const {
    return !known() ? "unknown" : verified() ? source : "unverified";
  }
};

}  // namespace flashmoe
