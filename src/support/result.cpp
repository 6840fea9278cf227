#include "support/result.hpp"

namespace flashmoe {

std::string Diagnostic::to_string() const {
  std::string text;
  if (!file.empty()) {
    text += file;
    if (line > 0) text += ":" + std::to_string(line);
    if (line > 0 && column > 0) text += ":" + std::to_string(column);
    text += ": ";
  }
  if (!key.empty()) text += key + ": ";
  text += message;
  if (!fix.empty()) text += " (fix: " + fix + ")";
  for (const Diagnostic& other : more) text += "\n" + other.to_string();
  return text;
}

}  // namespace flashmoe
