// The answer: what a launch takes on a GPU that is not here, what limits it, and how far that may be believed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "predict/cta_cost.hpp"
#include "predict/device.hpp"
#include "predict/path.hpp"
#include "predict/sass.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

struct Launch {
  SassKernel kernel{};
  std::vector<CtaPath> samples{};  // CTAs whose path is known: the first, the median, the heaviest ...
  MemoryShapes memory{};           // by instruction; empty: unknown
  // Warp instructions of every CTA in grid order, as the virtual GPU counted them (of PTX), and of the samples by the
  // same count. Empty: all CTAs are as samples[0].
  std::vector<std::uint64_t> cta_instructions{};
  std::vector<std::uint64_t> sample_instructions{};
  std::int64_t ctas = 1;
  KernelResources resources{};
  double dram_bytes = 0;         // that must come from DRAM or go there: each byte once
  double working_set_bytes = 0;  // that L2 would have to hold
  double unmatched_weight = 0;   // 0..1: executed instructions whose place in the SASS is not known
};

struct Time {
  double us = 0;
  double least_us = 0;  // the interval is stated; no test stands behind it
  double most_us = 0;
};

struct PipeUse {
  std::string_view name;
  double use = 0;  // 0..1
};

// Of one SASS instruction in one CTA, the heaviest sample; lines of PTX and of a source file are sums over it.
struct InstructionCost {
  std::uint32_t instruction = 0;
  double executions = 0;                // by warps
  std::array<double, stalls> cycles{};  // of warps, by what they waited for
};

struct Prediction {
  double cycles = 0;        // of the launch, SM clock
  double cta_alone = 0;     // cycles of the mean CTA on an SM of its own
  double cta_resident = 0;  // and with as many as fit
  Occupancy occupancy{};
  double waves = 0;       // CTAs over the places of all SMs
  std::string limiter{};  // "tensor", "issue", "shared memory and L1", "DRAM", "latency: barrier", "too few CTAs", ...
  std::vector<PipeUse> uses{};  // while an SM has all its CTAs, the largest first, "issue" among them
  double tensor_use = 0;        // over the launch on all SMs: what a profiler would show
  double issue_use = 0;
  std::vector<InstructionCost> costs{};  // those executed, in address order
  Time boost{};                          // at the boost clock, from the first CTA's start to the last one's end
  Time sustained{};                      // at the sustained clock; 0 where none is known
  LaunchCost launch{};
  Range cold_start_cycles{};
  double spread = 0;                    // relative standard deviation over the start offsets
  bool extended = false;                // a loop was simulated in part and extended
  std::vector<std::string> doubts{};    // each widens the interval
  std::vector<std::string> refusals{};  // any of them: not predicted, whatever the numbers above say

  [[nodiscard]] bool predicted() const { return refusals.empty(); }
};

[[nodiscard]] Result<Prediction> predict(const Launch& launch, const Gpu& gpu);

}  // namespace flashmoe::predict
