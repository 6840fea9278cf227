// Whether the loop advances to a candidate, and on what ground.
#pragma once

#include "workflow/advise/rules.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/optimize/proposal.hpp"
#include "workflow/trial/trial.hpp"

namespace flashmoe::workflow {

inline constexpr double least_improvement = 0.01;  // of the estimate; a counter that moved by less has not

[[nodiscard]] bool moved_as_foretold(const CounterChange& predicted, double seen);

// Where it was measured to be worth it; without a clock, where the counter moved as far as foretold and the predicted
// gain is worth it, or, where nothing is predicted, the busiest SM has less to do.
[[nodiscard]] TrialDecision decide(const Proposal& proposal, const CompareReport& compared, const RuleSet& rules);

}  // namespace flashmoe::workflow
