#include "workflow/compare/outcome.hpp"

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct Meaning {
  Outcome outcome;
  const char* code;
};

Meaning meaning_of(const Comparison& comparison) {
  switch (comparison.ending) {
    case Ending::decided:
      break;
    case Ending::threshold_refused:
      return {Outcome::inconclusive, codes::compare_threshold_refused};
    case Ending::biased:
      return {Outcome::inconclusive, codes::compare_biased};
    case Ending::base_failed:
      return {Outcome::could_not_run, codes::compare_base_failed};
    case Ending::candidate_failed:
      return {Outcome::fails, codes::compare_candidate_failed};
    case Ending::preempted:
      return {Outcome::inconclusive, codes::preempted};
    case Ending::interrupted:
      return {Outcome::inconclusive, codes::interrupted};
    case Ending::out_of_time:
      return {Outcome::inconclusive, codes::compare_out_of_time};
  }
  switch (comparison.verdict.decision) {
    case Decision::keep:
      return {Outcome::holds, ""};
    case Decision::revert:
      return {Outcome::fails, codes::compare_revert};
    case Decision::inconclusive:
      break;
  }
  return {Outcome::inconclusive, codes::compare_undecided};
}

}  // namespace

Outcome outcome_of(const Comparison& comparison) {
  return meaning_of(comparison).outcome;
}

std::string code_of(const Comparison& comparison) {
  return meaning_of(comparison).code;
}

}  // namespace flashmoe::workflow
