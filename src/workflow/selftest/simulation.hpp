// The comparison judged on machines whose truth is known: how often a run keeps something false, and how often a real
// gain is found.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "support/json.hpp"
#include "workflow/selftest/noise.hpp"
#include "workflow/statistics/binomial.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::workflow {

struct SimulationOptions {
  int runs = 2000;             // of the A/A null
  int candidates = 20;         // per run
  int trials_per_cell = 1000;  // of the power table
  double min_gain = 0.005;
  double total_alpha = 0.05;
  std::uint64_t seed = 42;
  int threads = 0;  // 0: all cores
  NoiseModel noise{};
};

struct NullResult {
  RateInterval false_keeps;           // runs in which at least one of the equal candidates was kept
  RateInterval false_keeps_of_naive;  // the same for "keep what is 1 % faster in one run each": the noise has teeth
  double pair_spread = 0;             // standard deviation of a pair's log-ratio
  double mean_pairs = 0;              // used per candidate
  int runs = 0;
};

struct PowerCell {
  double spread = 0, gain = 0;
  int index = 1;  // k of the comparison within its run
  RateInterval kept{};
  double mean_pairs = 0;
};

// `tick` is told the share that is done, from any thread.
using Tick = std::function<void(double)>;
[[nodiscard]] NullResult simulate_null(const SimulationOptions& options, const Tick& tick = {});
[[nodiscard]] std::vector<PowerCell> simulate_power(const SimulationOptions& options,
                                                    const std::vector<double>& spreads,
                                                    const std::vector<double>& gains, int index, const Tick& tick = {});

[[nodiscard]] Json to_json(const NullResult& result);
[[nodiscard]] Json to_json(const PowerCell& cell);
[[nodiscard]] Json to_json(const RateInterval& interval);

}  // namespace flashmoe::workflow
