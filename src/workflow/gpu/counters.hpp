// The counters by which two versions of a kernel are compared where there is no clock: sums over the launches of a
// call.
#pragma once

#include <string>
#include <vector>

#include "workflow/gpu/profile.hpp"
#include "workflow/verdict/counter_change.hpp"

namespace flashmoe::workflow {

struct Counter {
  const char* name;   // the metric of a launch
  const char* about;  // for people: "bank conflicts"
};

// Of all that are compared, the fewer the better.
[[nodiscard]] const Counter* find_counter(const std::string& name);

// Each compared counter that either run has; one that a run lacks is 0 there.
[[nodiscard]] std::vector<CounterChange> counter_changes(const ProfileRun& base, const ProfileRun& candidate);

enum class Movement { none, better, worse };
// Below one per cent nothing has moved: a counter is exact, but so small a change is not why anybody edits a kernel.
[[nodiscard]] Movement movement_of(const CounterChange& change);
// "-37.5 %", "from 0" where there is no ratio
[[nodiscard]] std::string change_text(const CounterChange& change);

}  // namespace flashmoe::workflow
