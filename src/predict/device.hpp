// From the cycles of CTAs on one SM to those of a launch on a GPU, and from there to time. Each term is one function.
#pragma once

#include <cstdint>
#include <span>

#include "devices/device.hpp"
#include "predict/parameters.hpp"

namespace flashmoe::predict {

// Of one CTA: its cycles when it has the SM for itself, and when as many are resident as fit (of its own kind).
struct CtaCycles {
  double alone = 0;
  double resident = 0;
};

// CTAs of a kernel that differ in their number of (warp) instructions cost in proportion to what they have more: cycles
// between points that were simulated, in ascending order; beyond them along the nearest two, or in proportion to the
// only one.
struct CurvePoint {
  double instructions = 0;
  CtaCycles cycles{};
};
[[nodiscard]] CtaCycles cycles_at(std::span<const CurvePoint> curve, double instructions);

// CTAs in grid order, one to each SM in turn and again until `resident` are on each; later ones where a place becomes
// free, one at a time where several do. An SM's CTAs share it: with k of R at work one takes
// alone + (resident - alone) * (k - 1) / (R - 1) cycles; one that follows another begins `gap` cycles after its end.
// Cycles until the last one ends.
[[nodiscard]] double grid_cycles(std::span<const CtaCycles> ctas, int sms, int resident, double gap);

// Seconds that DRAM needs for the bytes; 0 while what the launch touches fits into L2, which then holds it from the
// launch before. A launch takes the longer of this and of its cycles.
[[nodiscard]] double dram_seconds(const Gpu& gpu, double dram_bytes, double working_set_bytes);
[[nodiscard]] Fact dram_efficiency(const Gpu& gpu);  // of the bandwidth that clock and bus give

// From the end of one trivial kernel to the end of the next, microseconds: what a launch adds where the host is ahead.
struct LaunchCost {
  Fact stream_us{};
  Fact graph_us{};
};
[[nodiscard]] LaunchCost launch_cost(const Gpu& gpu);

// The SM clock under tensor-heavy attention over seconds; unknown for GPUs of which nobody published times.
[[nodiscard]] Fact sustained_clock_mhz(const Gpu& gpu);

// Cycles that the first CTA on an SM may wait for what later ones find in caches: its first bytes from DRAM, and its
// instructions, line after line. A stated interval; nothing published separates these.
struct Range {
  double least = 0;
  double most = 0;
};
[[nodiscard]] Range cold_start_cycles(const Machine& machine, double executed_code_bytes);

}  // namespace flashmoe::predict
