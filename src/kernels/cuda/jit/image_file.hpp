// One compiled kernel as a file of the cache. The file says which key it belongs to and what its content hashes to, so
// that one that was cut short, changed, or put there by somebody else is seen for what it is.
//
//   magic "FMSIMAGE" | format version | zero | payload bytes | key, 64 hex digits | SHA-256 of the payload, 64 |
//   payload 8                  4                4      8               64                   64 integers
//                                                                                              are little endian
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cuda/jit/private_directory.hpp"

namespace flashmoe::cuda {

inline constexpr std::size_t image_header_bytes = 152;
inline constexpr std::size_t max_image_bytes = std::size_t{64} << 20;

[[nodiscard]] std::vector<char> pack_image(std::string_view key, std::span<const char> payload);
// The payload, or nothing when the file is not exactly what pack_image made for this key.
[[nodiscard]] std::optional<std::vector<char>> unpack_image(std::string_view key, std::span<const char> file);

// Nothing when the file is not there, is not our own, or is not what pack_image made for this key.
[[nodiscard]] std::optional<std::vector<char>> read_image_file(const PrivateDirectory& directory,
                                                               const std::string& name, std::string_view key);
// Whoever reads `name` meanwhile sees the old file or the whole new one. False: it could not be written, and `name` is
// as it was. The file is written under name + ".XXXXXXXX.tmp" first.
[[nodiscard]] bool write_image_file(const PrivateDirectory& directory, const std::string& name, std::string_view key,
                                    std::span<const char> payload);
// What writers that died left behind.
void remove_unfinished_files(const PrivateDirectory& directory, const std::string& name);

}  // namespace flashmoe::cuda
