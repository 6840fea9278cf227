// How long a launch takes on the virtual clock. The default is a lower bound: the larger of the time to issue its
// instructions (one a clock and sub-partition, PTX instructions standing for machine instructions, on the SMs that have
// a CTA) and the time DRAM needs for the bytes that the cache model counted (observed runs with counters; else none). A
// client replaces it with cuGetProcAddress("vgpuSetLaunchTime"), VGPU_CLOCK=predicted with a prediction
// (predicted_clock.hpp).
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::driver {

struct LaunchFacts {
  const char* kernel;
  std::uint64_t grid_ctas, block_threads;
  std::uint64_t warp_instructions;
  double dram_bytes;  // 0: not counted
  std::uint32_t sm_count;
  double sm_clock_mhz, dram_gb_per_s;
  std::uint32_t issue_slots_per_sm;
};

extern "C" {
// Returns nanoseconds.
using LaunchTime = double (*)(const LaunchFacts* facts, void* user);
// nullptr: the lower bound again.
void set_launch_time(LaunchTime time, void* user);
}

[[nodiscard]] double lower_bound_ns(const LaunchFacts& facts);
[[nodiscard]] double launch_time_ns(const LaunchFacts& facts);
[[nodiscard]] bool is_replaced();

}  // namespace flashmoe::vgpu::driver
