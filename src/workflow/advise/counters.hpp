// The counters of a launch under the names that rules use.
#pragma once

#include <span>
#include <string>

#include "workflow/gpu/profile.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct CounterName {
  const char* name;   // in rules: "bank_conflicts"
  const char* about;  // for people
  double (*of)(const LaunchReport& launch);
};

[[nodiscard]] std::span<const CounterName> counter_names();
[[nodiscard]] const CounterName* find_counter_name(const std::string& name);
[[nodiscard]] Values counters_of(const LaunchReport& launch);
// Of the launch that has most to say: the one with the largest share. Empty: there was no launch.
[[nodiscard]] Values weightiest_counters(const ProfileRun& run);
// One of these; 0 where there is none.
[[nodiscard]] double counter_of(const ProfileRun& run, const std::string& name);

}  // namespace flashmoe::workflow
