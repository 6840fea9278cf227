// The record of one change that was tried: what it was, why, what was foretold, what was seen, and what was decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/prices.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/counter_change.hpp"

namespace flashmoe::workflow {

struct IterationRecord {
  static constexpr const char* kind = "iteration";
  std::optional<Prices> cost_per_hour{};
  std::string proposer = "person";
  std::string hypothesis{};  // why it should help, in the proposer's words; empty: nobody said
  std::string rule{};        // of the advice it follows; empty: none
  std::optional<CounterChange> predicted{};
  std::vector<CounterChange> seen{};  // on a device without a clock
  std::string parent{}, candidate{};  // commits
  std::string patch_sha256{};
  std::vector<std::string> files{};  // that the patch touches
  int lines_added = 0, lines_removed = 0;
  std::string workload{};
  std::string comparison{};      // id of its record; empty: it did not get so far
  std::optional<Gain> gain{};    // where there is a clock
  std::string decision{};        // of a loop: "advance", "leave"; empty: a person decides
  std::string ground{};          // on which it was taken
  std::string summary{}, fix{};  // why, in a sentence; what to do
  bool operator==(const IterationRecord&) const = default;
};

}  // namespace flashmoe::workflow
