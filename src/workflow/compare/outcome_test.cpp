#include "workflow/compare/outcome.hpp"

#include <gtest/gtest.h>

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Comparison ended(Ending ending) {
  Comparison comparison;
  comparison.ending = ending;
  return comparison;
}

Comparison decided(Decision decision) {
  Comparison comparison;
  comparison.verdict.decision = decision;
  return comparison;
}

TEST(CompareOutcome, KeepHoldsAndRevertDoesNot) {
  EXPECT_EQ(exit_code(outcome_of(decided(Decision::keep))), 0);
  EXPECT_EQ(code_of(decided(Decision::keep)), "");
  EXPECT_EQ(exit_code(outcome_of(decided(Decision::revert))), 1);
  EXPECT_EQ(exit_code(outcome_of(ended(Ending::candidate_failed))), 1);
  EXPECT_EQ(exit_code(outcome_of(decided(Decision::inconclusive))), 3);
}

// Nothing is known about a candidate whose base does not run.
TEST(CompareOutcome, AFailedBaseCouldNotRun) {
  EXPECT_EQ(exit_code(outcome_of(ended(Ending::base_failed))), 4);
}

TEST(CompareOutcome, WhatIsNotDecidedIsInconclusive) {
  for (const Ending ending :
       {Ending::threshold_refused, Ending::biased, Ending::preempted, Ending::interrupted, Ending::out_of_time}) {
    EXPECT_EQ(exit_code(outcome_of(ended(ending))), 3) << name_of(ending);
  }
}

TEST(CompareOutcome, TheCodeSaysTheSame) {
  for (const Ending ending : {Ending::threshold_refused, Ending::biased, Ending::base_failed, Ending::candidate_failed,
                              Ending::preempted, Ending::interrupted, Ending::out_of_time}) {
    EXPECT_EQ(static_cast<int>(row_of(code_of(ended(ending))).exit), exit_code(outcome_of(ended(ending))))
        << name_of(ending);
  }
}

}  // namespace
}  // namespace flashmoe::workflow
