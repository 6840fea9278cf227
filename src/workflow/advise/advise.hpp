// The one bottleneck: rules applied to the launches of a profile, the largest expected gain first.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/advise/rules.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/verdict/counter_change.hpp"

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

// All that applies; the first is the primary bottleneck. Empty: no rule finds one.
[[nodiscard]] Result<std::vector<Advice>> advise(const ProfileRun& run, const RuleSet& rules);
[[nodiscard]] std::string advice_text(const std::vector<Advice>& advice);

}  // namespace flashmoe::workflow
