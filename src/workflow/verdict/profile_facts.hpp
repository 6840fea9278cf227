// What the profile gate counted, and the one bottleneck that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

struct BottleneckFacts {
  std::string rule{};        // "grid"
  std::string bottleneck{};  // "the grid is too small"
  std::string says{};        // the evidence, in words with figures
  std::string where{};       // file:line, when one line is to blame
  std::string change{};      // the one change
  CounterChange expected{};  // the counter that has to move, and how far at least
  double expected_gain = 1;  // factor on the time: an estimate
  bool operator==(const BottleneckFacts&) const = default;
};

struct ProfileFacts {
  static constexpr const char* gate = "profile";
  std::string workload{};
  std::uint64_t seed = 0;
  std::string counters{};  // of the device: "exact", "hardware", "degraded"
  std::string degraded{};  // "no counters: ..."; empty: there were some
  bool debug = false;      // the kernel was not judged: no evidence
  std::string kernel{};    // whose counters these are; empty: of the call
  Named<double> counted{};
  std::optional<BottleneckFacts> bottleneck{};  // unset: none was named
  std::vector<std::string> further{};           // rules that hold, too, the most worthwhile first
  bool operator==(const ProfileFacts&) const = default;
};

}  // namespace flashmoe::workflow
