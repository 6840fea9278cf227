// What nvcc -fatbin and cuobjdump call a fatbin: PTX texts and cubins for several architectures in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe {

struct FatbinEntry {
  enum class Kind { ptx, cubin, other };
  Kind kind = Kind::other;
  int sm = 0;                      // 89, of compute_89 and of sm_89
  std::vector<std::byte> bytes{};  // decompressed
  [[nodiscard]] std::string text() const;
};

inline constexpr std::uint32_t fatbin_magic = 0xba55ed50;
inline constexpr std::uint32_t fatbin_wrapper_magic = 0x466243b1;  // {magic, version, pointer to the fatbin, ...}
inline constexpr std::size_t fatbin_header_bytes = 16;

// How long the fatbin is that begins with these fatbin_header_bytes.
[[nodiscard]] Result<std::uint64_t> fatbin_length(std::span<const std::byte> header);
[[nodiscard]] Result<std::vector<FatbinEntry>> read_fatbin(std::span<const std::byte> bytes);

}  // namespace flashmoe
