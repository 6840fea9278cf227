// The one bottleneck: rules applied to the launches of a profile, the largest expected gain first.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/advise/rules.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {

// What applies to these counters, the most worthwhile first.
[[nodiscard]] Result<std::vector<Advice>> advise(const Values& counters, const RuleSet& rules);
// Asks every rule of every launch, and puts what applies into the launches.
[[nodiscard]] Result<Done> advise(ProfileRun& run, const RuleSet& rules);
// All of it, over all launches; the first is the primary bottleneck. Empty: no rule finds one.
[[nodiscard]] std::vector<Advice> ranked(const ProfileRun& run);
// The primary bottleneck whole, the others in a line each. `estimate`: what a gain is.
[[nodiscard]] std::string advice_text(const std::vector<Advice>& advice,
                                      const std::string& estimate = "an estimate from counts, no time");
// Cycles that the busiest SM needs at least, launch after launch, as the rules estimate them (their value "busiest").
[[nodiscard]] Result<double> least_cycles(const ProfileRun& run, const RuleSet& rules);

}  // namespace flashmoe::workflow
