// How many CTAs an SM holds: the smallest of what warps, registers, shared memory, CTA slots and barriers allow.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "devices/device.hpp"

namespace flashmoe {
namespace {

constexpr int no_limit = std::numeric_limits<int>::max();

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

struct Limit {
  int ctas = no_limit;
  std::string why;
};

Limit by_warps(const ArchitectureLimits& limits, const KernelResources& kernel, int warps) {
  if (kernel.threads > limits.max_threads_per_cta)
    return {0, fmt::format("threads: {} per CTA, at most {}", kernel.threads, limits.max_threads_per_cta)};
  return {limits.max_warps_per_sm / warps,
          fmt::format("warps: {} per CTA of {} per SM", warps, limits.max_warps_per_sm)};
}

Limit by_registers(const ArchitectureLimits& limits, const KernelResources& kernel, int warps) {
  if (kernel.registers == 0) return {};
  const auto per_warp =
      round_up(std::int64_t{kernel.registers} * limits.threads_per_warp, limits.register_granularity_per_warp);
  // The hardware checks a launch as if the CTA's warps were spread evenly over the sub-partitions.
  const auto per_cta = per_warp * round_up(warps, limits.sub_partitions_per_sm);
  if (per_cta > limits.registers_per_cta)
    return {0, fmt::format("registers: {} per thread x {} threads need {}, at most {} per CTA", kernel.registers,
                           kernel.threads, per_cta, limits.registers_per_cta)};
  const auto warps_per_partition = limits.registers_per_sm / limits.sub_partitions_per_sm / per_warp;
  return {static_cast<int>(warps_per_partition * limits.sub_partitions_per_sm / warps),
          fmt::format("registers: {} per thread, {} of {} per CTA", kernel.registers, per_warp * warps,
                      limits.registers_per_sm)};
}

Limit by_shared_memory(const ArchitectureLimits& limits, const KernelResources& kernel) {
  const auto wanted = kernel.static_shared_bytes + kernel.dynamic_shared_bytes;
  const auto allocated = round_up(wanted + limits.shared_bytes_reserved_per_cta, limits.shared_bytes_granularity);
  if (wanted > limits.shared_bytes_per_cta_optin)
    return {0, fmt::format("shared memory: {} bytes ({} static + {} dynamic), at most {} per CTA on {}", wanted,
                           kernel.static_shared_bytes, kernel.dynamic_shared_bytes, limits.shared_bytes_per_cta_optin,
                           limits.name)};
  return {static_cast<int>(limits.shared_bytes_per_sm / allocated),
          fmt::format("shared memory: {} of {} bytes per CTA", allocated, limits.shared_bytes_per_sm)};
}

}  // namespace

Occupancy occupancy(const ArchitectureLimits& limits, const KernelResources& kernel) {
  if (kernel.threads < 1) return {.limiter = fmt::format("threads: {} per CTA, at least 1", kernel.threads)};
  const int warps = (kernel.threads + limits.threads_per_warp - 1) / limits.threads_per_warp;
  std::array all{by_warps(limits, kernel, warps), by_registers(limits, kernel, warps), by_shared_memory(limits, kernel),
                 Limit{limits.max_ctas_per_sm, fmt::format("CTAs: at most {} per SM", limits.max_ctas_per_sm)},
                 Limit{}};
  if (limits.barriers_per_sm > 0 && kernel.barriers > 0)
    all.back() = {limits.barriers_per_sm / kernel.barriers,
                  fmt::format("barriers: {} of {} per CTA", kernel.barriers, limits.barriers_per_sm)};
  const auto smallest =
      std::min_element(all.begin(), all.end(), [](const Limit& a, const Limit& b) { return a.ctas < b.ctas; });
  return {.ctas_per_sm = smallest->ctas,
          .warps_per_sm = smallest->ctas * warps,
          .share_of_warps = static_cast<double>(smallest->ctas * warps) / limits.max_warps_per_sm,
          .limiter = smallest->why};
}

}  // namespace flashmoe
