// The answer: what a launch takes on a GPU that nobody has here, what limits it, and how far that may be believed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "predict/device.hpp"
#include "predict/path.hpp"
#include "predict/sass.hpp"
#include "predict/sm.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

struct Launch {
  const SassKernel* kernel = nullptr;
  std::vector<CtaPath> samples{};  // CTAs whose path is known, in grid order: the first, the median, the heaviest ...
  MemoryShapes memory{};
  std::vector<std::uint64_t>
      cta_instructions{};  // of all CTAs in grid order, warp instructions; empty: all as samples[0]
  std::int64_t ctas = 1;
  KernelResources resources{};
  double dram_bytes = 0;         // that must come from DRAM or go there: each byte once
  double working_set_bytes = 0;  // that L2 would have to hold
  double unmatched_weight = 0;   // 0..1: executed instructions whose place in the SASS is not known
};

struct Time {
  double us = 0;
  double least_us = 0;  // the interval that is stated, not one that a test stands behind
  double most_us = 0;
};

struct PipeUse {
  Pipe pipe{};
  double use = 0;  // 0..1, over the cycles of an SM that has all its CTAs
};

// Of one SASS instruction, over the mean SM run; lines of PTX and of a source file are sums over it.
struct InstructionCost {
  std::uint32_t instruction = 0;
  std::uint64_t executions = 0;  // by warps
  StallCycles cycles{};          // of warps, by reason
};

struct Prediction {
  double cycles = 0;     // of the launch, SM clock
  double cta_alone = 0;  // cycles of the mean CTA on an SM of its own
  double cta_resident = 0;
  int resident = 0;         // CTAs an SM holds
  std::string residency{};  // why not one more
  double waves = 0;
  std::string limiter{};        // "tensor pipe", "issue", "shared memory and L1", "L2", "DRAM", "latency: barrier", ...
  std::vector<PipeUse> uses{};  // largest first
  double tensor_use = 0;
  double issue_use = 0;
  StallCycles stalls{};
  std::vector<InstructionCost> costs{};  // those executed, in address order
  Time boost{};                          // at the boost clock, without the launch
  Time sustained{};                      // at the sustained clock; 0 where none is known
  LaunchCost launch{};
  double spread = 0;                    // relative standard deviation over the start offsets
  bool extended = false;                // a loop was simulated in part and extended
  std::vector<std::string> doubts{};    // each widens the interval
  std::vector<std::string> refusals{};  // any of them: not predicted, whatever the numbers above say

  [[nodiscard]] bool predicted() const { return refusals.empty(); }
};

[[nodiscard]] Result<Prediction> predict(const Launch& launch, const Gpu& gpu);

}  // namespace flashmoe::predict
