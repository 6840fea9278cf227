// How many CTAs of a kernel one SM holds: the smallest of what warps, registers, shared memory, CTA slots and barriers
// allow. The only such calculation here; a test holds it against cuda_occupancy.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "devices/device.hpp"

namespace flashmoe {

struct KernelResources {
  int registers = 0;  // per thread; 0: unknown, and taken to be no limit
  int threads = 1;    // per CTA
  std::int64_t static_shared_bytes = 0;
  std::int64_t dynamic_shared_bytes = 0;
  int barriers = 1;
};

enum class SmLimit : std::uint8_t { warps, registers, shared_memory, ctas, barriers };
inline constexpr std::size_t sm_limits = 5;
[[nodiscard]] std::string_view name_of(SmLimit limit);  // "shared memory"; "blocks", as Nsight Compute has it

struct Occupancy {
  static constexpr int no_limit = std::numeric_limits<int>::max();
  std::array<int, sm_limits> ctas_by{no_limit, no_limit, no_limit, no_limit, no_limit};  // each limit alone
  SmLimit limited_by = SmLimit::warps;  // the first of those that allow the least
  int ctas_per_sm = 0;                  // 0: it cannot be launched at all
  int warps_per_sm = 0;
  double share_of_warps = 0;  // 0..1
  std::string limiter{};      // "shared memory: 41984 of 102400 bytes per CTA"; why not one CTA more

  [[nodiscard]] int by(SmLimit limit) const { return ctas_by[static_cast<std::size_t>(limit)]; }
};

[[nodiscard]] Occupancy occupancy(const Architecture& architecture, const KernelResources& kernel);

}  // namespace flashmoe
