// `cudadent try` without its flags: an edit of the working tree, from its diff to a verdict. The gates run on a
// worktree, then the edit is compared with HEAD. The user's tree is read, never written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/trial/snapshot.hpp"

namespace flashmoe::workflow {

// What a loop makes of a comparison.
struct TrialDecision {
  bool advance = false;
  std::string ground{};
  std::optional<CounterChange> seen{};  // of the counter that was foretold
};

struct TrialRequest {
  std::string project = ".";
  std::string device{};              // empty: FLASHMOE_DEVICE, else cpu
  std::string because{};             // why it should help
  std::string workload{};            // empty: the project's target
  std::string phase = "tuning";      // whose least gain holds
  std::optional<double> min_gain{};  // instead of the phase's
  std::string run{};                 // empty: current_run()
  std::optional<std::uint64_t> seed{};
  double limit_seconds = 1800;  // of measuring
  // Of a change that was proposed by something: who, by which rule, and what it foretold.
  std::string proposer = "person";
  std::string rule{};
  std::optional<CounterChange> predicted{};
  // Of a loop: whether to go on from here. Unset: a person decides.
  std::function<TrialDecision(const CompareReport& compared)> decide{};
};

struct TrialReport {
  Snapshot snapshot{};
  GateRun gates{};                            // environment and build of the edit
  std::optional<CompareReport> comparison{};  // unset: a gate did not hold
  Record record{};
  std::vector<std::string> notes{};
  std::string word{};  // KEEP, REVERT, REFUSED, INCONCLUSIVE, PREDICTED, COUNTERS MOVED, COUNTERS NOT MOVED
  Outcome outcome = Outcome::could_not_run;
  std::string code{};  // why it does not hold; empty: it does
  std::string next{};  // the command to type now
};

inline constexpr const char* refused_word = "REFUSED";  // it may not be tried

inline constexpr int trial_steps = 2 + compare_steps;

// The edit in the working tree.
[[nodiscard]] Result<TrialReport> run_trial(const TrialRequest& request, Progress& progress);
// A change that is a commit already.
[[nodiscard]] Result<TrialReport> try_change(const Project& project, Snapshot change, const TrialRequest& request,
                                             Progress& progress);
[[nodiscard]] std::string trial_text(const TrialReport& report);

}  // namespace flashmoe::workflow
