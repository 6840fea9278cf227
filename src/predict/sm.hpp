// One SM, cycle by cycle, over the paths of the CTAs that it executes.
//
// The rules, from which tests/predict/sm_oracle.py is written a second time. Times are whole cycles where nothing else
// is said; [t] is the cycle in which an instruction issues; parameters are those of parameters.hpp.
//
// 1. The SM has 4 sub-partitions. Warp w of a CTA of W warps in slot s belongs to w % 4 if W % 4 == 0, else to
// (w + s * W) % 4. In a cycle they take their turn in the order 0..3, and each issues at most one instruction: of the
// warps that may issue, that which issued last in this sub-partition, else the youngest (the CTA started last; in it
// the highest w).
//
// 2. A warp may issue its next instruction when max(stall, yield ? 2 : 1) cycles have passed since its last; the
// counters of its wait mask are at zero; it waits at no barrier and no DEPBAR; and its pipe or queue takes it.
//
// 3. Counters: an instruction with a write (read) barrier raises that counter at [t]; it is lowered when the result is
// there (the sources were read). Kinds without another rule below: [t] + latency, which is 25 for special and 29 for
// constant, else 1; sources at [t] + 1.
//
// 4. A pipe that is free from f on (a real number): an instruction issues at t >= f; then
// f = (t - f < 1 ? f : t) + interval, so that intervals which are not whole hold on average. fma_heavy waits for its
// own pipe and for fma's, and holds fma's for the smaller of its interval and FFMA's.
//
// 5. xu: an instruction begins at b = max(t, ceil(f)) and holds the pipe until f = b + interval, and its place in the
// queue as long; it issues only while fewer than transcendental_queue places are held. Result at b + latency, sources
// at b + source latency.
//
// 6. Memory (shared, shuffle, global, local, async copy): begins at b = max(t, local, port). Then local (of the
// sub-partition) = b + memory_interval, port (of the SM) = b + wavefronts, and its place in the sub-partition's queue
// is free at b + 1; it issues only while fewer than memory_queue places are held. Sources are read at b + source
// latency. The result is there: shared and shuffle at b + wavefronts - 1 + latency; local at b + latency; global and
// async copy, with L2 free from g on (a real number): g = max(g, b) + bytes / share, result at ceil(g) + latency.
//
// 7. async copies make a pending time of the warp, the largest of their results. async_commit closes a group, complete
// at max(pending, [t] + 4, the group before); its write barrier's counter is lowered then. DEPBAR with n waits until at
// most n groups of the warp are incomplete.
//
// 8. BAR.SYNC, BAR.RED: waits until as many warps as its count says have arrived at that barrier of the CTA (without a
// count: all that have not ended). All then go on, not before the last arrival + barrier_latency. BAR.ARV arrives and
// goes on. When nothing can ever issue again, all that wait go on at the present cycle + barrier_latency, which is
// counted.
//
// 9. A warp has ended with its last instruction at [t]; when all of a CTA have, the next CTA takes its slot at t + gap.
// Slot s starts at s * offset, and warp w of a CTA at the CTA's start + w * (offset % 4).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "predict/kinds.hpp"
#include "predict/path.hpp"
#include "predict/program.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// Where the cycles of a warp go between two of its issues.
enum class Stall : std::uint8_t {
  issue,          // the cycle in which it issues
  fixed,          // the compiler's stall count: results of known latency
  long_counter,   // a counter that global or local memory holds
  short_counter,  // a counter of shared memory, shuffles, transcendentals, special registers
  async_copy,     // DEPBAR
  barrier,
  tensor_pipe,
  math_pipe,
  memory_queue,
  not_selected,  // another warp issued
};
inline constexpr std::size_t stalls = 10;
[[nodiscard]] std::string_view name_of(Stall stall);
using StallCycles = std::array<std::uint64_t, stalls>;

struct SmSetup {
  int resident = 1;          // CTAs at once
  int ctas = 1;              // CTAs in all: the i-th takes path i % paths
  std::uint32_t offset = 0;  // between the starts of resident CTAs
  std::uint32_t gap = 1;     // from the end of a CTA to the start of the next in its slot; at least 1
};

struct CtaTime {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SmRun {
  std::uint64_t cycles = 0;
  std::uint64_t instructions = 0;
  std::vector<CtaTime> ctas{};         // in the order started
  std::array<double, pipes> busy{};    // cycles; of the pipes of sub-partitions the sum of four
  std::vector<StallCycles> stalled{};  // warp cycles by instruction
  std::uint64_t forced_barriers = 0;  // barriers at which all waited for nobody: the path does not fit, or is not known

  [[nodiscard]] double use(Pipe pipe) const;  // 0..1 of all its cycles
  [[nodiscard]] double issue_use() const;     // the same
};

// Refuses paths that name no instruction, CTAs without warps, more warps than an SM holds.
[[nodiscard]] Result<SmRun> simulate(const Program& program, std::span<const CtaPath> paths, const SmSetup& setup);

}  // namespace flashmoe::predict
