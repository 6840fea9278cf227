// Two versions where there is no clock: is the candidate right, which of its counters differ from the base's, and what
// do both take as predicted?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/gate_result.hpp"
#include "workflow/verdict/predicted_gain.hpp"

namespace flashmoe::workflow {

struct CounterComparison {
  GateResult correctness{};                   // of the candidate, by the base's rules
  std::vector<CounterChange> changes{};       // empty: the candidate is not right
  ProfileRun base{}, candidate{};             // empty: the candidate is not right
  std::optional<PredictedGain> predicted{};   // unset: not predicted
  std::string not_predicted{};                // why
  std::string base_hash{}, candidate_hash{};  // of their images; the base's is unset when nothing was counted

  [[nodiscard]] bool moved() const;
  // "PREDICTED"; where nothing is: "COUNTERS MOVED", "COUNTERS NOT MOVED"; REVERT when it is not right.
  [[nodiscard]] std::string word() const;
  [[nodiscard]] Outcome outcome() const;   // moved holds; not moved is inconclusive, and so is a prediction
  [[nodiscard]] std::string code() const;  // why it does not hold; empty: it does
};

inline constexpr const char* predicted_word = "PREDICTED";
inline constexpr const char* counters_moved = "COUNTERS MOVED";
inline constexpr const char* counters_not_moved = "COUNTERS NOT MOVED";

struct CountersRequest {
  const DeviceSelector& device;
  std::string workload{};
  std::uint64_t seed = 0;
  double least_gain = 0;  // of the phase
};
[[nodiscard]] Result<CounterComparison> compare_counters(const Version& base, const Version& candidate,
                                                         const CountersRequest& request, Progress& progress);

// For people: whether it is right, and the counters side by side.
[[nodiscard]] std::string counters_text(const CounterComparison& comparison);

}  // namespace flashmoe::workflow
