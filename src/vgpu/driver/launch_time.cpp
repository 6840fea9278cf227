#include "vgpu/driver/launch_time.hpp"

#include <algorithm>
#include <mutex>

namespace flashmoe::vgpu::driver {
namespace {

struct Replacement {
  std::mutex mutex;
  LaunchTime time = nullptr;
  void* user = nullptr;
};
Replacement& replacement() {
  static Replacement one;
  return one;
}

}  // namespace

extern "C" void set_launch_time(LaunchTime time, void* user) {
  Replacement& held = replacement();
  const std::lock_guard lock(held.mutex);
  held.time = time;
  held.user = user;
}

double lower_bound_ns(const LaunchFacts& facts) {
  const double busy_sms = static_cast<double>(std::min<std::uint64_t>(facts.grid_ctas, facts.sm_count));
  const double clocks =
      static_cast<double>(facts.warp_instructions) / (facts.issue_slots_per_sm * std::max(1.0, busy_sms));
  return std::max(clocks * 1e3 / facts.sm_clock_mhz, facts.dram_bytes / facts.dram_gb_per_s);
}

double copy_time_ns(const Machine& machine, const Moved& moved) {
  // 16 lanes, 128b/130b coded, one way: 16 GT/s a lane in the fourth generation, which the cards before Hopper have.
  const double pcie_gb_per_s = (machine.sm() < 90 ? 16.0 : 32.0) * 16 * 128 / 130 / 8;
  return std::max(moved.pcie_bytes / pcie_gb_per_s, moved.dram_bytes / machine.gpu.dram_gb_per_s.value);
}

double launch_time_ns(const LaunchFacts& facts) {
  Replacement& held = replacement();
  const std::lock_guard lock(held.mutex);
  return held.time == nullptr ? lower_bound_ns(facts) : held.time(&facts, held.user);
}

bool is_replaced() {
  Replacement& held = replacement();
  const std::lock_guard lock(held.mutex);
  return held.time != nullptr;
}

}  // namespace flashmoe::vgpu::driver
