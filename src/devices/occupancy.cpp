#include "devices/occupancy.hpp"

#include <algorithm>

namespace flashmoe {
namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string text(std::int64_t number) {
  return std::to_string(number);
}

// What one CTA takes of an SM.
struct Need {
  int warps;
  std::int64_t registers_per_warp;
  std::int64_t shared_bytes;            // asked for
  std::int64_t allocated_shared_bytes;  // with the driver's own, in units of the hardware

  Need(const Architecture& a, const KernelResources& kernel)
      : warps((kernel.threads + a.threads_per_warp - 1) / a.threads_per_warp),
        registers_per_warp(
            round_up(std::int64_t{kernel.registers} * a.threads_per_warp, a.register_granularity_per_warp)),
        shared_bytes(kernel.static_shared_bytes + kernel.dynamic_shared_bytes),
        allocated_shared_bytes(round_up(shared_bytes + a.shared_bytes_reserved_per_cta, a.shared_bytes_granularity)) {}

  // The hardware checks a launch as if the CTA's warps were spread evenly over the sub-partitions.
  [[nodiscard]] std::int64_t registers_when_spread(const Architecture& a) const {
    return registers_per_warp * round_up(warps, a.sub_partitions_per_sm);
  }
};

int by_registers(const Architecture& a, const Need& need) {
  if (need.registers_per_warp == 0) return Occupancy::no_limit;
  if (need.registers_when_spread(a) > a.registers_per_cta) return 0;
  const auto warps_per_partition = a.registers_per_sm / a.sub_partitions_per_sm / need.registers_per_warp;
  return static_cast<int>(warps_per_partition * a.sub_partitions_per_sm / need.warps);
}

std::string why(const Architecture& a, const KernelResources& kernel, const Need& need, SmLimit limit, bool fits) {
  switch (limit) {
    case SmLimit::warps:
      if (!fits) return "threads: " + text(kernel.threads) + " per CTA, at most " + text(a.max_threads_per_cta);
      return "warps: " + text(need.warps) + " per CTA of " + text(a.max_warps_per_sm) + " per SM";
    case SmLimit::registers:
      if (!fits)
        return "registers: " + text(kernel.registers) + " per thread x " + text(kernel.threads) + " threads need " +
               text(need.registers_when_spread(a)) + ", at most " + text(a.registers_per_cta) + " per CTA";
      return "registers: " + text(kernel.registers) + " per thread, " + text(need.registers_per_warp * need.warps) +
             " of " + text(a.registers_per_sm) + " per CTA";
    case SmLimit::shared_memory:
      if (!fits)
        return "shared memory: " + text(need.shared_bytes) + " bytes (" + text(kernel.static_shared_bytes) +
               " static + " + text(kernel.dynamic_shared_bytes) + " dynamic), at most " +
               text(a.shared_bytes_per_cta_optin) + " per CTA on " + std::string(a.name);
      return "shared memory: " + text(need.allocated_shared_bytes) + " of " + text(a.shared_bytes_per_sm) +
             " bytes per CTA";
    case SmLimit::ctas:
      return "CTAs: at most " + text(a.max_ctas_per_sm) + " per SM";
    case SmLimit::barriers:
      return "barriers: " + text(kernel.barriers) + " of " + text(a.barriers_per_sm) + " per CTA";
  }
  return {};
}

}  // namespace

std::string_view name_of(SmLimit limit) {
  switch (limit) {
    case SmLimit::warps:
      return "warps";
    case SmLimit::registers:
      return "registers";
    case SmLimit::shared_memory:
      return "shared memory";
    case SmLimit::ctas:
      return "blocks";
    case SmLimit::barriers:
      return "barriers";
  }
  return "?";
}

Occupancy occupancy(const Architecture& architecture, const KernelResources& kernel) {
  const Architecture& a = architecture;
  if (kernel.threads < 1) return {.limiter = "threads: " + text(kernel.threads) + " per CTA, at least 1"};
  const Need need(a, kernel);
  Occupancy held;
  held.ctas_by = {
      kernel.threads > a.max_threads_per_cta ? 0 : a.max_warps_per_sm / need.warps, by_registers(a, need),
      need.shared_bytes > a.shared_bytes_per_cta_optin
          ? 0
          : static_cast<int>(a.shared_bytes_per_sm / need.allocated_shared_bytes),
      a.max_ctas_per_sm,
      a.barriers_per_sm > 0 && kernel.barriers > 0 ? a.barriers_per_sm / kernel.barriers : Occupancy::no_limit};
  const auto smallest = std::min_element(held.ctas_by.begin(), held.ctas_by.end());
  held.limited_by = static_cast<SmLimit>(smallest - held.ctas_by.begin());
  held.ctas_per_sm = *smallest;
  held.warps_per_sm = *smallest * need.warps;
  held.share_of_warps = static_cast<double>(held.warps_per_sm) / a.max_warps_per_sm;
  held.limiter = why(a, kernel, need, held.limited_by, *smallest > 0);
  return held;
}

}  // namespace flashmoe
