// The operating system's own files under /proc and /sys, which answer in lines of text.
#pragma once

#include <fstream>
#include <string>

#include "support/text.hpp"

namespace flashmoe {

// Empty when there is no such file.
[[nodiscard]] inline std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value behind the first "key : value" of a file of such lines; empty when it is not there.
[[nodiscard]] inline std::string value_in_file(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) return trimmed(line.substr(colon + 1));
  }
  return {};
}

}  // namespace flashmoe
