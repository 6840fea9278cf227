// Small things about texts.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe {

// Without blanks, tabs and line ends around it.
[[nodiscard]] inline std::string trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(blank) - begin + 1));
}

}  // namespace flashmoe
