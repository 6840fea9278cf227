// The record of a gate run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "workflow/journal/baseline.hpp"
#include "workflow/journal/compare_record.hpp"
#include "workflow/journal/prices.hpp"
#include "workflow/verdict/gate_result.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

struct GateRecord {
  static constexpr const char* kind = "gate";
  std::string summary{};
  std::optional<Prices> cost_per_hour{};
  std::optional<std::uint64_t> seed{};
  std::optional<int> threads{};
  std::map<std::string, double> point{};  // of the project's tunables; empty: it has none
  std::optional<Recipe> recipe{};         // unset: from before it was kept
  Named<BaselineRecord> baselines{};      // by workload: those that later runs may be compared with
  std::vector<GateResult> gates{};
  bool operator==(const GateRecord&) const = default;
};

}  // namespace flashmoe::workflow
