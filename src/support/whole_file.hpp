// A file as one text.
#pragma once

#include <array>
#include <cstddef>
#include <fstream>
#include <optional>
#include <string>

namespace flashmoe {

// nullopt when it cannot be opened or read: a directory, or what was behind a file of /proc is gone. (An iterator over
// the stream's buffer throws then.)
[[nodiscard]] inline std::optional<std::string> whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  for (std::array<char, 16384> part; file.read(part.data(), part.size()) || file.gcount() > 0;)
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return std::nullopt;
  return text;
}

}  // namespace flashmoe
