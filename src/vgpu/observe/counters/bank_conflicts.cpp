#include "vgpu/observe/counters/bank_conflicts.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "vgpu/observe/lanes.hpp"

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t banks = 32;

// Different words per bank, at most one per lane and word of its access.
std::uint32_t pass(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes, bool is_atomic) {
  std::array<std::array<std::uint32_t, 32>, banks> words;  // filled up to count[bank]
  std::array<std::uint8_t, banks> count{};
  std::uint32_t most = 0;
  std::uint64_t previous = ~std::uint64_t{0};
  for_each_lane(lanes, [&](int lane) {
    // The lane before often asks for the same.
    if (!is_atomic && address[lane] == previous) return;
    previous = address[lane];
    const auto last = static_cast<std::uint32_t>((address[lane] + bytes - 1) / 4);
    for (auto word = static_cast<std::uint32_t>(address[lane] / 4); word <= last; ++word) {
      const std::size_t bank = word % banks;
      auto& seen = words[bank];
      std::uint8_t& n = count[bank];
      if (!is_atomic && std::find(seen.begin(), seen.begin() + n, word) != seen.begin() + n) continue;
      if (n < 32) seen[n++] = word;
      most = std::max<std::uint32_t>(most, n);
    }
  });
  return most;
}

// Whether every lane has banks of its own, the usual case: 128 bytes hold so many aligned accesses, and no two lanes
// take the same place modulo 128.
bool has_own_banks(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes) {
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  std::uint32_t places = 0;
  std::uint64_t low_bits = 0;
  for_each_lane(lanes, [&](int lane) {
    low_bits |= address[lane];
    places |= 1u << (address[lane] / bytes % (banks * 4 / bytes));
  });
  return low_bits % bytes == 0 && std::popcount(places) == std::popcount(lanes);
}

}  // namespace

Wavefronts shared_wavefronts(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes, SharedKind kind) {
  int lanes_per_pass = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  if (kind == SharedKind::matrix) lanes_per_pass = 8;
  Wavefronts result;
  if (bytes > 4 && kind == SharedKind::access) {
    for_each_lane(lanes & (lanes << lanes_per_pass), [&](int lane) {
      result.may_be_fewer = result.may_be_fewer || address[lane] == address[lane - lanes_per_pass];
    });
  }
  for (int begin = 0; begin < 32; begin += lanes_per_pass) {
    const std::uint32_t window = lanes_per_pass == 32 ? 0xffffffffu : ((1u << lanes_per_pass) - 1u) << begin;
    const std::uint32_t part = lanes & window;
    if (part == 0) continue;
    ++result.ideal;
    result.total += has_own_banks(part, address, bytes) ? 1 : pass(part, address, bytes, kind == SharedKind::atomic);
  }
  return result;
}

}  // namespace flashmoe::vgpu::observe
