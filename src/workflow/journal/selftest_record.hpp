// The record of a self-test: how often the tool itself was wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workflow/statistics/binomial.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

// Something that must hold, or a goal that is reported without failing the self-test.
struct SelftestCheck {
  std::string name{};
  bool must = true;
  bool ran = true;  // a must that could not run has failed
  bool holds = false;
  std::string figure{};  // what was seen, and the limit
  bool operator==(const SelftestCheck&) const = default;
};

struct NullResult {
  int runs = 0;
  RateInterval false_keeps{};           // runs in which at least one of the equal candidates was kept
  RateInterval false_keeps_of_naive{};  // the same for "keep what is 1 % faster in one run each": the noise has teeth
  double pair_spread = 0;               // standard deviation of a pair's log-ratio
  double mean_pairs = 0;                // used per candidate
  bool operator==(const NullResult&) const = default;
};

struct PowerCell {
  double spread = 0, gain = 0;
  int index = 1;  // k of the comparison within its run
  RateInterval kept{};
  double mean_pairs = 0;
  bool operator==(const PowerCell&) const = default;
};

// A comparison of real processes with a known difference.
struct RealResult {
  double injected_gain = 0;
  std::string verdict{};  // "not measured" when it was not
  Gain gain{};
  int pairs = 0;
  double pair_spread = 0;
  std::string problem{};  // why it was not measured
  bool operator==(const RealResult&) const = default;
};

struct CheatOutcome {
  std::string name{};
  std::string what{};
  std::optional<std::string> expected_gate{};  // unset: honest, must pass
  std::optional<std::string> stopped_at{};     // the gate that refused it; unset: it passed
  std::string message{};                       // what that gate said
  bool as_expected = false;
  std::string not_run{};  // why: this machine lacks what it needs, and it is not counted; empty: it ran
  int asked_again = 0;    // verdicts that were not decided before this one
  double seconds = 0;
  bool operator==(const CheatOutcome&) const = default;
};

// Of those that ran.
struct CorpusCounts {
  int cheats = 0, refused = 0;  // refused where they should be
  int honest = 0, passed = 0;
  int not_run = 0;
  int asked_again = 0;
  bool operator==(const CorpusCounts&) const = default;
};

// Pairs of equal builds of one kernel at one workload.
struct EqualWorkload {
  int pairs = 0;
  double mean = 0, pair_spread = 0;            // of a pair's log-ratio
  int blocks = 0, processor_clock_blocks = 0;  // ABBA blocks, and those that processor time decided
  bool operator==(const EqualWorkload&) const = default;
};

struct EqualBuilds {
  std::string kernel{};
  Named<EqualWorkload> workloads{};
  bool operator==(const EqualBuilds&) const = default;
};

// The performance gate asked again and again about a kernel whose speed is known.
struct GateRate {
  double speed = 1, needed = 1;  // time of the baseline over time of the kernel
  int holds = 0, fails = 0, undecided = 0;
  std::string problem{};  // why one could not run
  bool operator==(const GateRate&) const = default;
  [[nodiscard]] int runs() const { return holds + fails + undecided; }
  [[nodiscard]] int wrong() const { return speed < needed ? holds : fails; }
};

struct NoiseResult {
  std::vector<EqualBuilds> equal_builds{};
  std::vector<GateRate> gate_rates{};
  bool operator==(const NoiseResult&) const = default;
};

struct SelftestRecord {
  static constexpr const char* kind = "selftest";
  std::vector<SelftestCheck> checks{};
  NullResult simulated_null{};
  std::vector<PowerCell> power{};
  std::vector<RealResult> real{};
  std::vector<CheatOutcome> cheats{};
  std::optional<CorpusCounts> corpus{};
  std::optional<NoiseResult> noise{};
  bool operator==(const SelftestRecord&) const = default;
};

}  // namespace flashmoe::workflow
