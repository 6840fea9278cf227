// A file as one text.
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace flashmoe {

// nullopt when it cannot be opened.
[[nodiscard]] inline std::optional<std::string> whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace flashmoe
