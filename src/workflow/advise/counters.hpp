// The counters of a launch under the names that rules use.
#pragma once

#include <array>
#include <span>
#include <string>

#include "workflow/gpu/profile.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct CounterName {
  using Reads = std::array<const char*, 6>;
  const char* name;                                    // in rules: "bank_conflicts"
  const char* about;                                   // for people
  Reads reads;                                         // metrics, or fields of a launch's report
  double (*of)(const LaunchReport& launch) = nullptr;  // null: the sum of the metrics

  [[nodiscard]] bool is_known(const LaunchReport& launch) const;  // nothing that it reads is missing
  [[nodiscard]] double value(const LaunchReport& launch) const;
};

[[nodiscard]] std::span<const CounterName> counter_names();
[[nodiscard]] const CounterName* find_counter_name(const std::string& name);
// Without those that read what nobody counted.
[[nodiscard]] Values counters_of(const LaunchReport& launch);
// Of the launch that has most to say: the one with the largest share. Empty: there was no launch.
[[nodiscard]] Values weightiest_counters(const ProfileRun& run);
// One of these; 0 where there is none.
[[nodiscard]] double counter_of(const ProfileRun& run, const std::string& name);

}  // namespace flashmoe::workflow
