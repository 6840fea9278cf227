// One SM, cycle by cycle, over the paths of the CTAs that it executes.
//
// The rules, from which tests/predict/sm_oracle.py is written a second time. Times are cycles; all state is per warp,
// per sub-partition or of the SM as it says. [t] is the cycle in which an instruction issues.
//  1. The SM has 4 sub-partitions. Warp w of a CTA in slot s belongs to (w + s * warps) % 4, or w % 4 if warps % 4 ==
//  0.
//     In a cycle they take their turn in order 0..3, and each issues at most one instruction: of its warps that may
//     issue, the one that issued last here, else the youngest (the CTA started last, in it the highest w).
//  2. A warp may issue its next instruction when: max(1, stall) cycles have passed since its last (2 with yield and a
//  stall
//     below 2); all counters of its wait mask are at zero; it waits at no barrier; its pipe is free.
//  3. Counters: an instruction with a write (read) barrier raises that counter at [t] and lowers it when its result is
//  there
//     (its sources were read).  Only kinds xu, special, constant and memory have such times; others lower it at [t]
//     + 1.
//  4. A pipe with interval i is free at f: instructions issue at t >= f, then f = (t - f < 1 ? f : t) + i, so that
//  fractional
//     intervals hold on average. fma_heavy waits for itself and fma, and holds fma for min(i, fma's).
//  5. xu: at most `transcendental_queue` instructions wait. One begins at b = max(t, free), holds the pipe until b + i
//  and
//     its place in the queue as long; the result is there at b + latency, its sources at b + transcendental_sources.
//  6. Memory (shared, shuffle, global, local, async_copy): at most `memory_queue` instructions wait in a sub-partition.
//  One
//     begins at b = max(t, local free, port free); then local free = b + memory_interval, port free = b + wavefronts,
//     and its place is free at b + 1. Sources are read at b + memory_sources.
//     Shared: result at b + wavefronts - 1 + latency. Local: b + latency. Global: L2 free = max(L2 free, b) + bytes /
//     share, result at ceil(L2 free) + latency. wavefronts are rounded to whole cycles, at least 1 (global:
//     global_least_wavefronts).
//  7. async_copy has its global result as a pending time of the warp; async_commit closes a group that is complete at
//     max(pending, [t] + 4, the group before). DEPBAR.LE SBk, n waits until at most n groups are incomplete.
//  8. BAR.SYNC and BAR.RED: waits until as many warps as its count says (all that have not ended, without one) have
//  arrived
//     at that barrier of the CTA; all go on at max(own time, last arrival + barrier_latency). BAR.ARV arrives and goes
//     on.
//  9. A CTA ends when its last warp has issued its last instruction at [t]; its slot's next CTA starts at t + cta_gap.
//     Slot s starts at s * offset, warp w of a CTA at the CTA's start + w * (offset % 4).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "predict/kinds.hpp"
#include "predict/parameters.hpp"
#include "predict/path.hpp"
#include "predict/sass.hpp"
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

  [[nodiscard]] double use(Pipe pipe) const;  // 0..1
  [[nodiscard]] double issue_use() const;     // 0..1
};

// What an instruction does, once for all its executions.
struct Program;
class Simulation {
 public:
  // Refuses a path with an index beyond the kernel, an empty CTA, too many warps.
  [[nodiscard]] static Result<Simulation> make(const SassKernel& kernel, const MemoryShapes& memory,
                                               const Machine& machine);
  Simulation(Simulation&&) noexcept;
  Simulation& operator=(Simulation&&) noexcept;
  ~Simulation();

  [[nodiscard]] Result<SmRun> run(std::span<const CtaPath> paths, const SmSetup& setup) const;

 private:
  explicit Simulation(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace flashmoe::predict
