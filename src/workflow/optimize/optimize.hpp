// The loop: profile, name the one bottleneck, make one change, pass the gates, compare, keep or leave, until there is
// a reason to stop. Every iteration is a record when it is decided, so that a loop that was killed goes on from there.
// The user's tree is never written: versions are commits under refs/cudadent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/optimize/proposal.hpp"

namespace flashmoe::workflow {

// One of several processes that share a run (shard.hpp).
struct Shard {
  int index = 0;  // 0: it decides; from 1: it counts its part
  int count = 1;  // of those that count
};
inline constexpr int usual_batch = 12;

struct OptimizeRequest {
  std::string project = ".";
  std::string device{};                        // empty: FLASHMOE_DEVICE, else cpu
  std::string run{};                           // goes on with a run of this name; empty: a new one
  std::optional<int> max_iterations{};         // else the project's
  std::optional<double> max_minutes{};         // else the project's
  std::optional<double> max_dollars{};         // of what [cost] says an hour costs
  std::optional<double> target{};              // stop at this many times the baseline's speed; else the ladder's last
  std::optional<double> dollars_a_per_cent{};  // what a gain of 1 % is worth: stop when the next iteration costs more
  std::uint64_t seed = 0;
  bool quiet = false;
  bool patterns = true;          // what was learned (advise/patterns.hpp) ranks what is tried
  int batch = usual_batch;       // proposals of one bottleneck that are counted before one is tried
  std::optional<Shard> shard{};  // unset: this process does everything
  Propose propose{};             // unset: the rules, then a search, over the project's tunables
};

struct Iteration {
  int number = 0;
  std::string proposer{}, rule{}, hypothesis{};
  std::optional<CounterChange> predicted{}, seen{};
  std::string verdict{};
  bool advanced = false;
  std::string ground{};
  double seconds = 0;
};

// A workload that was not looked at on the way: its time, or the busiest SM's cycles, at the end over those at the
// start.
struct Elsewhere {
  std::string workload{};
  double factor = 1;
};
inline constexpr double worse_elsewhere = 1.05;

struct OptimizeReport {
  std::string run{};
  std::string device{};
  std::string start{}, end{};  // commits; end is under refs/cudadent unless nothing was kept
  std::vector<Iteration> iterations{};
  std::string stopped{};                          // why
  std::vector<std::string> bottlenecks{};         // that were named, in order
  double cycles_at_start = 0, cycles_at_end = 0;  // virtual: of the busiest SM at least, estimated from counts
  std::optional<double> predicted_at_start{}, predicted_at_end{};  // virtual: cycles of a call; unset: not predicted
  double busiest_sm_at_start = 0, busiest_sm_at_end = 0;           // virtual: instructions it executed
  std::string baseline{};                                          // its name; empty: none, or no clock
  std::optional<double> ratio_at_start{}, ratio_at_end{};  // measured: times the baseline's speed, target workload
  std::vector<Elsewhere> elsewhere{};                      // when something was kept
  std::size_t waiting = 0;  // candidates that other shards have to count before it goes on
  double seconds = 0;
  std::string next{};
};

[[nodiscard]] Result<OptimizeReport> run_optimize(const OptimizeRequest& request);
// "IMPROVED", "NOTHING KEPT", "WAITING"
[[nodiscard]] const char* verdict_of(const OptimizeReport& report);
[[nodiscard]] std::string optimize_text(const OptimizeReport& report);

}  // namespace flashmoe::workflow
