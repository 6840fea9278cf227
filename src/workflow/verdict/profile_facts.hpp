// What the profile gate counted, and the one bottleneck that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/verdict/counter_change.hpp"
#include "workflow/verdict/named.hpp"

namespace flashmoe::workflow {

// A line of the source, and what of a count is its own.
struct CountedLine {
  std::string file{};  // in the project
  int line = 0;
  std::string count{};  // "global_sectors"
  double own = 0, all = 0;
  bool operator==(const CountedLine&) const = default;
};

struct BottleneckFacts {
  std::string rule{};                // "grid"
  std::string bottleneck{};          // "the grid is too small"
  std::string says{};                // the evidence, in words with figures
  std::string where{};               // file:line, when one line is to blame
  std::vector<CountedLine> lines{};  // of the kernel that it is about: those with most, at most three
  std::string change{};              // the one change
  CounterChange expected{};          // the counter that has to move, and how far at least
  double expected_gain = 1;          // factor on the time: an estimate
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
