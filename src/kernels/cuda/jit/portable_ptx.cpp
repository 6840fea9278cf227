#include "kernels/cuda/jit/portable_ptx.hpp"

#include <algorithm>
#include <charconv>

namespace flashmoe::cuda {
namespace {

constexpr std::string_view version = ".version ";
constexpr int ptx_major = 8, ptx_minor = 0;  // portable_ptx_version

// A hint for tools that watch memory; ptxas from 12.3 on refuses it under an older version. PTX ISA 8.3, ".pragma".
constexpr std::string_view used_bytes = ".pragma \"used_bytes_mask";

bool is_newer(std::string_view line) {
  const char* const end = line.data() + line.size();
  int its_major = 0, its_minor = 0;
  const auto [dot, failed] = std::from_chars(line.data() + version.size(), end, its_major);
  if (failed != std::errc() || dot == end || *dot != '.') return false;
  if (std::from_chars(dot + 1, end, its_minor).ec != std::errc()) return false;
  return its_major > ptx_major || (its_major == ptx_major && its_minor > ptx_minor);
}

}  // namespace

std::string portable_ptx(std::string_view text) {
  std::string portable;
  portable.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view line = text.substr(at, end - at);
    const std::string_view words = line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
    at = end;
    if (words.starts_with(used_bytes)) continue;
    if (words.starts_with(version) && is_newer(words)) {
      portable += std::string(version) + portable_ptx_version + "\n";
    } else {
      portable += line;
    }
  }
  return portable;
}

}  // namespace flashmoe::cuda
