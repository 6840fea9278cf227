#include "workflow/report/summary.hpp"

#include <gtest/gtest.h>

#include "workflow/journal/records_for_test.hpp"

namespace flashmoe::workflow {
namespace {

Project planned_project() {
  Project project;
  project.thresholds.target_workload = "target";
  project.thresholds.max_minutes = 60;
  project.cost = {.machine_per_hour = 0.8, .agent_per_hour = 10};
  project.machine.stop = "cloud stop";
  return project;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Summary, ARunIsFoundByNameOrByOneOfItsRecords) {
  const std::vector<Record> records{compare_record("aaaabbbbcccc", "KEEP", 0.05)};
  EXPECT_EQ(*find_run(records, "tuesday"), "tuesday");
  EXPECT_EQ(*find_run(records, "aaaa"), "tuesday");
  const auto none = find_run(records, "zzz");
  ASSERT_FALSE(none);
  EXPECT_TRUE(has(none.error().message, "tuesday"));
}

TEST(Summary, HasBeforeAfterChangesTimeCostAndGoals) {
  const std::vector<Record> records{gate_record("a1", 0.8, Outcome::fails), compare_record("b1", "KEEP", 0.10),
                                    compare_record("b2", "KEEP", 0.20), compare_record("b3", "INCONCLUSIVE", 0.01),
                                    gate_record("a2", 1.06, Outcome::fails)};
  const RunSummary summary = run_summary(records, "tuesday", planned_project());
  EXPECT_NEAR(summary.kept_gain, 1.1 * 1.2 - 1, 1e-9) << "only what was kept counts";
  EXPECT_NEAR(find_named(summary.before, "target")->speedup, 0.8, 1e-9);
  EXPECT_NEAR(find_named(summary.after, "target")->speedup, 1.06, 1e-9);
  EXPECT_NEAR(summary.cost.total, 2 * 0.22 + 3 * 0.11, 1e-9);
  EXPECT_NEAR(summary.seconds, 2 * 12 + 3 * 30, 1e-9);
  const std::string markdown = markdown_of(summary);
  for (const char* part :
       {"# Run tuesday of softmax", "## Before and after", "0.800x", "1.060x", "## Changes", "wider \\| loads", "KEEP",
        "## Time and cost", "1.9 min of 60 min planned", "3 comparisons of 3 iterations", "$0.7700", "## Next goals",
        "profile it", "1.20x on target: the lower bound is at 1.010x", "stayed open", "cloud stop"}) {
    EXPECT_TRUE(has(markdown, part)) << part << "\n" << markdown;
  }
}

// The effect is what the summary is for: a measured one has its figures, also all kept ones together.
TEST(Summary, EffectsHaveTheirFigures) {
  const std::vector<Record> records{compare_record("b1", "KEEP", 0.10), compare_record("b2", "KEEP", 0.20)};
  const std::string markdown = markdown_of(run_summary(records, "tuesday", std::nullopt));
  EXPECT_TRUE(has(markdown, "| KEEP | +10.00 % [+9.00 %, unbounded] | 7 |")) << markdown;
  EXPECT_TRUE(has(markdown, "Kept changes together: +32.00 %.")) << markdown;
  EXPECT_FALSE(has(markdown, "not measured")) << markdown;
}

TEST(Summary, AComparisonThatWentOnCountsOnce) {
  Record stopped = compare_record("b1", "PREEMPTED", 0.01);
  Record ended = compare_record("b2", "KEEP", 0.10);
  for (Record* record : {&stopped, &ended}) {
    std::get<CompareRecord>(record->body).key = "k";
    std::get<CompareRecord>(record->body).seed = 7;
  }
  const RunSummary summary = run_summary({stopped, ended}, "tuesday", std::nullopt);
  ASSERT_EQ(summary.changes.size(), 1U);
  EXPECT_EQ(summary.changes[0].verdict, "KEEP");
  EXPECT_TRUE(summary.next_goals.empty());
}

TEST(Summary, OfARunWithoutRecordsSaysSo) {
  const std::string markdown = markdown_of(run_summary({}, "nothing", std::nullopt));
  EXPECT_TRUE(has(markdown, "No comparison"));
  EXPECT_TRUE(has(markdown, "Nothing is open"));
}

}  // namespace
}  // namespace flashmoe::workflow
