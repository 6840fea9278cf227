#include "workflow/project/locations.hpp"

namespace flashmoe::workflow {

Position Locations::of(const std::string& key) const {
  for (std::string at = key; !at.empty();
       at.erase(at.find_last_of(".[") == std::string::npos ? 0 : at.find_last_of(".["))) {
    const auto found = positions_.find(at);
    if (found != positions_.end()) return found->second;
  }
  return {1, 1};
}

Diagnostic Locations::error(const std::string& key, std::string message, std::string fix, int offset) const {
  Position position = of(key);
  if (offset >= 0) position.column += 1 + offset;  // 1: the quote
  return error_at(position, key, std::move(message), std::move(fix));
}

Diagnostic Locations::error_at(Position position, const std::string& key, std::string message, std::string fix) const {
  Diagnostic diagnostic;
  diagnostic.message = std::move(message);
  diagnostic.fix = std::move(fix);
  diagnostic.file = file_;
  diagnostic.line = position.line;
  diagnostic.column = position.column;
  diagnostic.key = key;
  return diagnostic;
}

}  // namespace flashmoe::workflow
