// The record of a comparison.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/prices.hpp"
#include "workflow/statistics/comparison.hpp"
#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/predicted_gain.hpp"

namespace flashmoe::workflow {

// The command that makes a record again.
struct Recipe {
  std::optional<bool> exact{};  // false: it was made on a tree that no commit holds
  std::vector<std::string> argv{};
  bool operator==(const Recipe&) const = default;
};

struct VersionRecord {
  std::string name{};
  std::optional<std::string> commit{};  // unset: no clean checkout
  bool dirty = false;
  std::string library_sha256{};
  bool operator==(const VersionRecord&) const = default;
};

struct PolicyRecord {
  int index = 1;  // k of its run
  double alpha = 0, min_gain = 0;
  int min_pairs = 0, max_pairs = 0;
  double g = 0;
  double block_seconds = 0;
  std::optional<int> counted{};  // k as the journal counts it, where the user gave another
  bool operator==(const PolicyRecord&) const = default;
};

struct CalibrationRecord {
  int pairs = 0;
  double pair_spread = 0, noise_floor = 0;
  std::optional<double> minimum_detectable_gain{};  // unset: no number of pairs would do
  Gain equal_versions{};
  bool biased = false;
  bool operator==(const CalibrationRecord&) const = default;
};

// An abandoned comparison has its pairs, key and seed only.
struct CompareRecord {
  static constexpr const char* kind = "compare";
  std::optional<Prices> cost_per_hour{};
  std::optional<std::string> key{};  // of what was compared, where and how
  std::optional<std::string> note{}, phase{};
  std::optional<VersionRecord> base{}, candidate{};
  std::optional<std::string> workload{};
  std::optional<bool> final_claim{};
  std::optional<PolicyRecord> policy{};
  std::optional<std::uint64_t> seed{};
  std::optional<Recipe> recipe{};
  std::optional<Gain> gain{};  // unset: fewer than two pairs
  std::size_t pairs_used = 0;
  CalibrationRecord calibration{};
  std::vector<PairSample> samples{}, calibration_samples{};
  std::vector<CounterChange> counters{};     // where there is no clock: the only figures
  std::optional<PredictedGain> predicted{};  // there too, where the model has an answer
  std::string not_predicted{};               // why it has none
  std::string problem{}, fix{};              // when it was not decided, or not for want of a finer machine
  bool operator==(const CompareRecord&) const = default;

  // Which comparison this is, also after it was stopped and went on.
  [[nodiscard]] std::string identity() const;
};

// What was measured, without what it was measured for.
[[nodiscard]] CompareRecord measured_record(const Comparison& comparison);

}  // namespace flashmoe::workflow
