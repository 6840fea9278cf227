// The one bottleneck: rules applied to the launches of a profile, the largest expected gain first.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/advise/rules.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {

struct Advice {
  std::string rule{};
  std::string kernel{};      // whose launch it is about
  std::string bottleneck{};  // "the grid is too small"
  std::string evidence{};    // "2 of 2 CTAs do work, on 2 of 58 SMs: 0.034 waves"
  std::string where{};       // file:line, when one line is to blame
  std::string change{};
  std::string phase{};
  CounterChange expected{};       // the counter that has to move, and how far at least
  std::string stays_when_fake{};  // the counter that a change in name only leaves as it is
  double launch_gain = 1;         // expected factor on the launch's time (an estimate from counts)
  double gain = 1;                // on all launches together
};

// Asks every rule of every launch, and puts what applies into the launches.
[[nodiscard]] Result<Done> advise(ProfileRun& run, const RuleSet& rules);
// All of it, over all launches; the first is the primary bottleneck. Empty: no rule finds one.
[[nodiscard]] std::vector<Advice> ranked(const ProfileRun& run);
// The primary bottleneck whole, the others in a line each.
[[nodiscard]] std::string advice_text(const std::vector<Advice>& advice);
// Cycles that the busiest SM needs at least, launch after launch, as the rules estimate them (their value "busiest").
[[nodiscard]] Result<double> least_cycles(const ProfileRun& run, const RuleSet& rules);

}  // namespace flashmoe::workflow
