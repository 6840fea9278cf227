// The comparison judged on machines whose truth is known: how often a run keeps something false, and how often a real
// gain is found.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workflow/journal/selftest_record.hpp"
#include "workflow/selftest/noise.hpp"

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

// `tick` is told the share that is done, from any thread.
using Tick = std::function<void(double)>;
[[nodiscard]] NullResult simulate_null(const SimulationOptions& options, const Tick& tick = {});
[[nodiscard]] std::vector<PowerCell> simulate_power(const SimulationOptions& options,
                                                    const std::vector<double>& spreads,
                                                    const std::vector<double>& gains, int index, const Tick& tick = {});

}  // namespace flashmoe::workflow
