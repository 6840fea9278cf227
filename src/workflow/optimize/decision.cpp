#include "workflow/optimize/decision.hpp"

#include <fmt/format.h>

#include "workflow/advise/counters.hpp"
#include "workflow/journal/listing.hpp"

namespace flashmoe::workflow {

bool moved_as_foretold(const CounterChange& predicted, double seen) {
  return predicted.to >= predicted.from ? seen >= predicted.to : seen <= predicted.to;
}

TrialDecision decide(const Proposal& proposal, const CompareReport& compared, const RuleSet& rules) {
  if (!compared.counters) {
    const auto& measured = std::get<CompareRecord>(compared.record.body);
    const std::string decided = compared.comparison.word();
    std::string ground = compared.rehearsal ? compared.word() + ": would be " + decided : decided;
    if (measured.gain) ground += " " + gain_text(*measured.gain);
    if (!measured.problem.empty()) ground += ": " + measured.problem;
    return {.advance = decided == name_of(Decision::keep), .ground = std::move(ground)};
  }
  const CounterComparison& counters = *compared.counters;
  if (counters.changes.empty()) return {.advance = false, .ground = counters.correctness.summary};
  const auto before = least_cycles(counters.base, rules);
  const auto after = least_cycles(counters.candidate, rules);
  if (!before || !after) return {.advance = false, .ground = "the rules could not be evaluated"};
  const auto& gain = counters.predicted;
  const bool less_to_do = *after < (1 - least_improvement) * *before;
  std::string ground =
      gain ? text_of(*gain)
           : fmt::format("busiest SM {:.4g} -> {:.4g} cycles at least (estimated from counts)", *before, *after);
  const bool better = gain ? gain->is_worth_keeping() : less_to_do;
  if (!proposal.predicted) return {.advance = better, .ground = ground};
  const double seen = counter_of(counters.candidate, proposal.predicted->name);
  const bool foretold = moved_as_foretold(*proposal.predicted, seen);
  // Counts are exact: what a rule foretold and they confirm is taken although the gain is too small to be believed.
  const bool counts = gain && !better && !proposal.rule.empty() && less_to_do && gain->gain() >= 0;
  if (counts) ground += " by the prediction alone, taken on the counter";
  ground = fmt::format("{} {:.4g} -> {:.4g}, foretold {:.4g}; {}", proposal.predicted->name, proposal.predicted->from,
                       seen, proposal.predicted->to, ground);
  return {.advance = foretold && (better || counts),
          .ground = ground,
          .seen = CounterChange{.name = proposal.predicted->name, .from = proposal.predicted->from, .to = seen}};
}

}  // namespace flashmoe::workflow
