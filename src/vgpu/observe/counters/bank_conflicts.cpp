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

// Consecutive lanes at consecutive addresses, the usual case: every word once, no bank twice.
bool is_dense(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes) {
  const int first = std::countr_zero(lanes);
  const int n = std::popcount(lanes);
  if (n * static_cast<int>(bytes) > 128 || (bytes & 3) != 0 || (address[first] & 3) != 0) return false;
  if (static_cast<std::uint64_t>(lanes) >> first != (std::uint64_t{1} << n) - 1) return false;
  std::uint64_t off = 0;
  for (int i = 0; i < n; ++i) off |= address[first + i] ^ (address[first] + static_cast<std::uint64_t>(i) * bytes);
  return off == 0;
}

}  // namespace

Wavefronts shared_wavefronts(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes, SharedKind kind) {
  int lanes_per_pass = bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8;
  if (kind == SharedKind::matrix) lanes_per_pass = 8;
  Wavefronts result;
  for (int begin = 0; begin < 32; begin += lanes_per_pass) {
    const std::uint32_t window = lanes_per_pass == 32 ? 0xffffffffu : ((1u << lanes_per_pass) - 1u) << begin;
    const std::uint32_t part = lanes & window;
    if (part == 0) continue;
    ++result.ideal;
    result.total += is_dense(part, address, bytes) ? 1 : pass(part, address, bytes, kind == SharedKind::atomic);
  }
  return result;
}

}  // namespace flashmoe::vgpu::observe
