#include "devices/tuning.hpp"

#include <algorithm>
#include <array>

namespace flashmoe {
namespace {

constexpr std::string_view on_l4 =
    "static tensor use of the sm_89 loops on an L4 when the costs beside it were set; latencies of the order published "
    "for Ampere and Ada; not measured";
constexpr std::string_view walked =
    "static tensor use of this architecture's loops (bench/peers/loop_shares.py); the rest as on sm_89; not measured";

constexpr std::array policies{
    TuningPolicy{.architecture = "sm_80", .loop_share = {0.52, 0.71, 0.82, 0.79, 0.83}, .source = walked},
    // The same pipes as sm_89.
    TuningPolicy{.architecture = "sm_86", .loop_share = {0.66, 0.80, 0.93, 0.88, 0.94}, .source = on_l4},
    // Of an L40 14.7 bytes are published; an L4 has 24 slices of L2 for 58 SMs, an L40 48 for 142: at most 18.
    TuningPolicy{.architecture = "sm_89",
                 .loop_share = {0.66, 0.80, 0.93, 0.88, 0.94},
                 .shared_l2_bytes_per_clock = 16,
                 .equal_wave_share = 0.15,
                 .long_wave_share = 0.1,
                 .source = on_l4},
    TuningPolicy{.architecture = "sm_90", .loop_share = {0.53, 0.70, 0.81, 0.77, 0.72}, .source = walked},
    TuningPolicy{.architecture = "sm_100", .loop_share = {0.64, 0.83, 0.88, 0.84, 0.88}, .source = walked},
    // The walk gives 0.96 to 0.99 at half the tensor rate. The smallest tiles would then win wherever tensor work
    // dominates; what its L2 has for all SMs together is not known, so that nothing here says that they ask for more.
    TuningPolicy{.architecture = "sm_120", .loop_share = {0.66, 0.80, 0.93, 0.88, 0.94}, .source = on_l4},
};

constexpr std::string_view virtual_suffix = " (virtual)";

bool is_geforce(std::string_view name) {
  return name.find("GeForce") != std::string_view::npos;
}

// Of that name, else the nearest older relative; the oldest of all for what is older still.
const Gpu& relative_of(const DriverAnswers& device, const Architecture& architecture) {
  std::string_view name = device.name;
  if (name.ends_with(virtual_suffix)) name.remove_suffix(virtual_suffix.size());
  const auto gpus = all_gpus();
  const auto same = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.name == name; });
  if (same != gpus.end() && same->architecture == architecture.name) return *same;
  // GeForce cards accumulate in fp32 at half the rate of their professional relatives.
  const auto brothers = [&](const Gpu& gpu) {
    return gpu.architecture == architecture.name && is_geforce(gpu.name) == is_geforce(name);
  };
  if (const auto one = std::find_if(gpus.begin(), gpus.end(), brothers); one != gpus.end()) return *one;
  return *std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.architecture == architecture.name; });
}

const Architecture& nearest_architecture(int sm) {
  const auto all = all_architectures();  // oldest first
  const auto newer = std::find_if(all.begin(), all.end(), [&](const Architecture& one) { return one.sm() > sm; });
  return newer == all.begin() ? all.front() : *(newer - 1);
}

}  // namespace

std::span<const TuningPolicy> all_tuning_policies() {
  return policies;
}

PlannerFigures planner_figures(const DriverAnswers& device) {
  const Architecture& architecture = nearest_architecture(10 * device.compute_major + device.compute_minor);
  const Gpu& relative = relative_of(device, architecture);
  const TuningPolicy& policy = *std::find_if(
      policies.begin(), policies.end(), [&](const TuningPolicy& one) { return one.architecture == architecture.name; });
  const auto said = [](double answer, const Fact& otherwise) { return answer > 0 ? answer : otherwise.value; };
  const double sm_count = said(device.sm_count, relative.sm_count);
  const double clock_mhz = said(device.clock_mhz, relative.boost_clock_mhz);
  const double dram_mb_per_s = 2 * said(device.memory_clock_mhz, relative.memory_clock_mhz) *
                               said(device.memory_bus_bits, relative.memory_bus_bits) / 8;
  return {.policy = &policy,
          .sm_count = static_cast<std::int32_t>(sm_count),
          .pipes_per_sm = architecture.sub_partitions_per_sm,
          .product_clocks = relative.mma_sync_clocks.value,
          .dram_bytes_per_clock = policy.dram_share * dram_mb_per_s / (clock_mhz * sm_count),
          .few_rows_l2_bytes_per_clock =
              said(relative.l2_bytes_per_clock_per_sm.value, {policy.few_rows_l2_bytes_per_clock, on_l4}),
          .shared_l2_bytes_per_clock =
              said(relative.l2_bytes_per_clock_per_sm.value, {policy.shared_l2_bytes_per_clock, on_l4}),
          .l2_resident_bytes = policy.l2_share * said(device.l2_bytes, relative.l2_bytes)};
}

DriverAnswers driver_answers(const Gpu& gpu) {
  const auto architecture = find_architecture(std::string(gpu.architecture));
  return {.name = gpu.name,
          .compute_major = architecture->compute_major,
          .compute_minor = architecture->compute_minor,
          .sm_count = static_cast<int>(gpu.sm_count.value),
          .clock_mhz = gpu.boost_clock_mhz.value,
          .memory_clock_mhz = gpu.memory_clock_mhz.value,
          .memory_bus_bits = gpu.memory_bus_bits.value,
          .l2_bytes = gpu.l2_bytes.value};
}

}  // namespace flashmoe
