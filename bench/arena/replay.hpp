// All rules on the same runs: a run is one task, one seed, and the order in which a proposer offers its candidates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recording.hpp"
#include "rules.hpp"
#include "workflow/statistics/binomial.hpp"

namespace flashmoe::arena {

enum class Noise {
  recorded,  // blocks as they were measured
  simulated  // the rented machine of `cudadent selftest`, around the recorded gains
};

struct ReplayOptions {
  int seeds = 20;
  Noise noise = Noise::recorded;
};

// Offered and kept, over all runs.
struct Count {
  int kept = 0, offered = 0;
};

struct Interval {
  double mean = 0, lower = 0, upper = 0;
};

struct Score {
  std::string rule{};
  bool what_if = false;
  int runs = 0;
  int runs_with_false_keep = 0;  // something kept that is equal or slower
  int runs_with_bad_keep = 0;    // that, or a cheat, or something that is wrong somewhere
  int tasks_with_false_keep = 0;
  Count equal{}, slower{}, cheats{}, breaks{}, wrong{};
  Count small_gains{}, gains{};  // true ones below and from the least gain of `tuning` on
  Interval speed{};              // true speed of what was kept, geometric mean over the tasks, 95 %
  double mean_pairs = 0;         // per comparison, where pairs are seen
  [[nodiscard]] workflow::RateInterval false_keep_rate() const;
  [[nodiscard]] workflow::RateInterval bad_keep_rate() const;
};

struct Replay {
  int tasks = 0, candidates = 0, seeds = 0;
  double best_speed = 0;    // if all true gains and nothing else were kept, geometric mean over the tasks
  double pair_spread = 0;   // median over the tasks, of pairs of the base against itself
  double plain_spread = 0;  // median over the tasks, of the ratio of plain runs of equal candidates
  std::vector<Score> scores{};
};

[[nodiscard]] Replay replay(const Recording& recording, const std::vector<Rule>& rules, const ReplayOptions& options);

}  // namespace flashmoe::arena
