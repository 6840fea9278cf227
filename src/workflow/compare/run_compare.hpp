// `cudadent compare` without its flags: from two names to a verdict and its record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compare/counters.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/project/project.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::workflow {

struct CompareRequest {
  std::string project = ".";
  std::string base = "HEAD";
  std::string candidate = ".";
  std::string device{};    // empty: FLASHMOE_DEVICE, else cpu
  std::string workload{};  // empty: the project's target
  std::string phase = "tuning";
  std::optional<double> min_gain{};  // else the phase's least gain
  int index = 0;                     // k in its run; 0: counted from the records
  std::string run{};                 // empty: current_run()
  std::string note{};                // what the change is about; kept in the record
  double block_seconds = 0.004;
  double limit_seconds = 1800;
  int max_pairs = 24;
  std::optional<std::uint64_t> seed{};
  bool final_claim = false;
  bool resume = false;
};

struct CompareReport {
  Comparison comparison{};
  std::optional<CounterComparison> counters{};  // instead, on a device without a clock
  Record record{};
  std::vector<std::string> notes{};
  bool rehearsal = false;  // of a card: nothing was measured, so nothing is decided

  [[nodiscard]] std::string word() const;  // "KEEP", ..., "PREDICTED", "COUNTERS MOVED", "REHEARSAL"
  [[nodiscard]] Outcome outcome() const;
  [[nodiscard]] std::string code() const;  // why it does not hold; empty: it does
};

inline constexpr int compare_steps = 7;
inline constexpr double run_alpha = 0.05;  // false keeps in a whole run

[[nodiscard]] Result<CompareReport> run_compare(const CompareRequest& request, Progress& progress);

// The least gain of a phase, or what the phases are.
[[nodiscard]] Result<double> least_gain_of(const Project& project, const std::string& phase);
// k of the next comparison of `run`: every earlier one that looked at pairs has spent its share of alpha, also one that
// was given up. A comparison that went on after a preemption counts once.
[[nodiscard]] int next_index(const std::vector<Record>& records, const std::string& run);
// The named workload, or the target, or the last one.
[[nodiscard]] Result<Workload> workload_of(const Project& project, const std::string& name);

}  // namespace flashmoe::workflow
