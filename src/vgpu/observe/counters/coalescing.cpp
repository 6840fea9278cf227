#include "vgpu/observe/counters/coalescing.hpp"

#include <algorithm>
#include <bit>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {

namespace {

void add_up(Coalesced& out) {
  out.sectors = 0;
  out.distinct_bytes = 0;
  for (std::uint32_t i = 0; i < out.lines; ++i) {
    out.sectors += static_cast<std::uint32_t>(std::popcount(out.line[i].sectors));
    for (const std::uint32_t mask : out.line[i].bytes)
      out.distinct_bytes += static_cast<std::uint32_t>(std::popcount(mask));
  }
}

}  // namespace

void coalesce(std::uint64_t begin, std::uint64_t bytes, Coalesced& out) {
  out.lines = 0;
  const std::uint64_t end = begin + bytes;
  for (std::uint64_t line = begin / line_bytes; line * line_bytes < end; ++line) {
    Coalesced::Line& into = out.line[out.lines++];
    into = {};
    into.line = line;
    for (std::uint32_t sector = 0; sector < sectors_per_line; ++sector) {
      const std::uint64_t at = line * line_bytes + std::uint64_t{sector} * sector_bytes;
      if (at + sector_bytes <= begin || at >= end) continue;
      const std::uint64_t first = std::max(begin, at) - at, last = std::min(end, at + sector_bytes) - at;
      into.sectors = static_cast<std::uint8_t>(into.sectors | 1u << sector);
      into.bytes[sector] = static_cast<std::uint32_t>((std::uint64_t{1} << last) - (std::uint64_t{1} << first));
    }
  }
  add_up(out);
}

void coalesce(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes, Coalesced& out) {
  out.lines = 0;
  std::uint32_t at = 0;  // the line met last: neighbours in a warp are neighbours in memory
  const auto touch = [&](std::uint64_t begin, std::uint32_t length) {  // inside one sector
    const std::uint64_t line = begin / line_bytes;
    if (at >= out.lines || out.line[at].line != line) {
      for (at = 0; at < out.lines && out.line[at].line != line; ++at) {
      }
      if (at == out.lines) {
        out.line[out.lines++] = {};
        out.line[at].line = line;
      }
    }
    const std::uint32_t sector = begin / sector_bytes % sectors_per_line;
    const std::uint64_t ones = (std::uint64_t{1} << length) - 1;
    out.line[at].sectors = static_cast<std::uint8_t>(out.line[at].sectors | 1u << sector);
    out.line[at].bytes[sector] |= static_cast<std::uint32_t>(ones << begin % sector_bytes);
  };
  for_each_lane(lanes, [&](int lane) {
    std::uint64_t begin = address[lane];
    std::uint32_t left = bytes;
    while (left > 0) {
      const auto room = static_cast<std::uint32_t>(sector_bytes - begin % sector_bytes);
      const std::uint32_t length = std::min(left, room);
      touch(begin, length);
      begin += length;
      left -= length;
    }
  });
  add_up(out);
}

}  // namespace flashmoe::vgpu::observe
