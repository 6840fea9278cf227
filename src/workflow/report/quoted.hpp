// Somebody else's words (a file's, a kernel's, a proposer's) where an agent reads them: without control characters and
// of bounded length.
#pragma once

#include <string>
#include <string_view>

#include "support/text.hpp"

namespace flashmoe::workflow {

// At most `most` bytes, which end between two characters.
[[nodiscard]] inline std::string capped(std::string_view text, std::size_t most) {
  std::string shown = printable(trimmed(text.substr(0, 2 * most)));
  if (shown.size() <= most && text.size() <= 2 * most) return shown;
  std::size_t end = std::min(shown.size(), most - 3);
  while (end > 0 && end < shown.size() && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;
  return shown.substr(0, end) + "...";
}

// The same between quotation marks, which it cannot close.
[[nodiscard]] inline std::string in_quotes(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text) shown += c == '"' ? '\'' : c;
  return shown + '"';
}

}  // namespace flashmoe::workflow
