// How long a launch takes on the virtual clock. The default is a lower bound: the larger of the time to issue its
// instructions (one a clock and sub-partition, PTX instructions standing for machine instructions, on the SMs that have
// a CTA) and the time DRAM needs for its bytes: those that the cache model counted (observed runs with counters), else
// every sector that the launch touches, once (memory/footprint.hpp). A client replaces it with
// cuGetProcAddress("vgpuSetLaunchTime"), VGPU_CLOCK=predicted with a prediction (predicted_clock.hpp). Copies and fills
// take what their bytes need over PCIe, one way, or in DRAM.
#pragma once

#include <cstdint>

#include "vgpu/driver/machine.hpp"

namespace flashmoe::vgpu::driver {

struct LaunchFacts {
  const char* kernel;
  std::uint64_t grid_ctas, block_threads;
  std::uint64_t warp_instructions;
  double dram_bytes;
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

// Bytes of a copy or a fill.
struct Moved {
  double pcie_bytes = 0, dram_bytes = 0;
};
[[nodiscard]] double copy_time_ns(const Machine& machine, const Moved& moved);

}  // namespace flashmoe::vgpu::driver
