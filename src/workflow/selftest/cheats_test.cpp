#include "workflow/selftest/cheats.hpp"

#include <gtest/gtest.h>

#include "workflow/runner/worker_for_test.hpp"

namespace flashmoe::workflow {
namespace {

TEST(Cheats, AreRefusedWhereTheyShouldBeAndTheHonestKernelPasses) {
  Progress quiet(1, true);
  const auto outcomes = run_cheats(quiet);
  ASSERT_EQ(outcomes.size(), all_cheats().size());
  EXPECT_GE(outcomes.size(), 13u);  // twelve and the control
  EXPECT_EQ(outcomes.front().name, "honest");
  for (const CheatOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.as_expected) << outcome.name << ": expected '" << outcome.expected_gate.value_or("")
                                     << "', stopped at '" << outcome.stopped_at.value_or("")
                                     << "': " << outcome.message;
  }
}

}  // namespace
}  // namespace flashmoe::workflow

int main(int argc, char** argv) {
  return flashmoe::workflow::run_tests_or_worker(argc, argv);
}
