// A global request of a warp: the 32-byte sectors and 128-byte lines it touches, each once.
#pragma once

#include <array>
#include <cstdint>

namespace flashmoe::vgpu::observe {

inline constexpr std::uint32_t sector_bytes = 32;
inline constexpr std::uint32_t line_bytes = 128;
inline constexpr std::uint32_t sectors_per_line = line_bytes / sector_bytes;

struct Coalesced {
  struct Line {
    std::uint64_t line = 0;       // address / 128
    std::uint8_t sectors = 0;     // bit per sector touched
    std::uint32_t bytes[4] = {};  // bit per byte of each sector
  };
  std::array<Line, 64> line{};  // 32 lanes of at most 16 bytes, each across two lines at worst
  std::uint32_t lines = 0;
  std::uint32_t sectors = 0;
  std::uint32_t distinct_bytes = 0;
  // The least number of sectors that hold this many bytes: what a perfectly coalesced request would touch.
  [[nodiscard]] std::uint32_t ideal_sectors() const { return (distinct_bytes + sector_bytes - 1) / sector_bytes; }
};

void coalesce(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes, Coalesced& out);
// The same of one piece of memory.
void coalesce(std::uint64_t begin, std::uint64_t bytes, Coalesced& out);

}  // namespace flashmoe::vgpu::observe
