// From the cycles of CTAs on one SM to those of a launch on a GPU, and from there to time. Each term is one function.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "devices/device.hpp"

namespace flashmoe::predict {

// Of one CTA: its cycles when it has the SM for itself, and when as many are resident as fit (of the same kind).
struct CtaCycles {
  double alone = 0;
  double resident = 0;
};

// CTAs in grid order onto SMs, one each in turn and then again until all slots are taken; later ones where a slot
// becomes free. An SM's CTAs share it: with k of R resident a CTA takes alone + (resident - alone) * (k - 1) / (R - 1).
// `gap` cycles pass before a slot's next CTA begins. Cycles until the last one ends.
[[nodiscard]] double grid_cycles(std::span<const CtaCycles> ctas, int sms, int resident, double gap);

// What DRAM adds. Nothing while what the kernel touches fits into L2; beyond it the launch takes at least as long as
// DRAM needs for the bytes.
[[nodiscard]] double dram_seconds(const Gpu& gpu, double dram_bytes, double working_set_bytes, double efficiency = 0.9);

// From one trivial kernel's end to the next one's, both in a stream, or both in a graph.
struct LaunchCost {
  Fact stream_us{};
  Fact graph_us{};
};
[[nodiscard]] LaunchCost launch_cost(const Gpu& gpu);

// The SM clock under a long run of tensor-heavy attention, where somebody's published times imply one; else unknown.
[[nodiscard]] Fact sustained_clock_mhz(const Gpu& gpu);

// Cycles that the first CTA of a grid waits where a later one does not, least and most: instructions that no cache
// holds yet, the first bytes from DRAM.
struct Range {
  double least = 0;
  double most = 0;
};
[[nodiscard]] Range cold_start_cycles(double code_bytes, double global_latency, double dram_latency);

}  // namespace flashmoe::predict
