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
  ASSERT_EQ(summary.kept.size(), 1U);
  EXPECT_NEAR(summary.kept[0].gain, 1.1 * 1.2 - 1, 1e-9) << "only what was kept counts";
  EXPECT_NEAR(find_named(summary.before, "target")->speedup, 0.8, 1e-9);
  EXPECT_NEAR(find_named(summary.after, "target")->speedup, 1.06, 1e-9);
  EXPECT_NEAR(summary.busy_seconds, 2 * 12 + 3 * 30, 1e-9);
  EXPECT_NEAR(summary.seconds, 30, 1e-5) << "all end at one time, and the longest took 30 s";
  EXPECT_NEAR(summary.cost.total, 30. / 3600 * 10.8, 1e-6);
  const std::string markdown = markdown_of(summary);
  for (const char* part :
       {"# Run tuesday of softmax", "## Before and after", "0.800x", "1.060x", "## Changes", "wider \\| loads", "KEEP",
        "## Time and cost", "0.5 min of 60 min planned", "cudadent ran 1.9 min", "3 changes tried of 3 iterations",
        "$0.0900", "## Next goals", "profile it", "1.20x on target: the lower bound is at 1.010x", "stayed open",
        "Keep or stop the machine as you like"}) {
    EXPECT_TRUE(has(markdown, part)) << part << "\n" << markdown;
  }
}

// The effect is what the summary is for: a measured one has its figures, also all kept ones together.
TEST(Summary, EffectsHaveTheirFigures) {
  const std::vector<Record> records{compare_record("b1", "KEEP", 0.10), compare_record("b2", "KEEP", 0.20)};
  const std::string markdown = markdown_of(run_summary(records, "tuesday", std::nullopt));
  EXPECT_TRUE(has(markdown, "| kept | KEEP | +10.00 % [+9.00 %, unbounded] | not recorded | 7 |")) << markdown;
  EXPECT_TRUE(has(markdown, "Kept changes together: +32.00 % on target (2 changes, not recorded).")) << markdown;
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

Record at(Record record, const std::string& time) {
  record.time = "2026-11-15T" + time + ".000000Z";
  return record;
}

// A rented card is paid while one thinks.
TEST(Summary, TimeAndMoneyRunFromTheFirstRecordToTheLast) {
  const std::vector<Record> records{at(compare_record("b1", "KEEP", 0.10), "05:00:30"),
                                    at(compare_record("b2", "REVERT", 0.10), "06:30:00")};
  const RunSummary summary = run_summary(records, "tuesday", planned_project());
  EXPECT_NEAR(summary.seconds, 5400, 1e-6);
  EXPECT_NEAR(summary.busy_seconds, 60, 1e-9);
  EXPECT_NEAR(summary.cost.machine, 1.5 * 0.8, 1e-9);
  EXPECT_TRUE(has(markdown_of(summary), "90.0 min of 60 min planned")) << markdown_of(summary);
  EXPECT_TRUE(has(markdown_of(summary), "trials and gates took 1 % of it")) << markdown_of(summary);
}

TEST(Summary, TheMachineIsStoppedWhenNothingIsOpenAndKeptWhenThereIsWork) {
  Project project = planned_project();
  project.thresholds.max_minutes = 180;
  const auto advice = [&](const Record& record) { return run_summary({record}, "tuesday", project).machine_advice; };
  EXPECT_TRUE(has(advice(gate_record("a1", 0.9, Outcome::fails)), "Keep the machine running: 3.0 h"));
  EXPECT_TRUE(has(advice(gate_record("a1", 2.0, Outcome::holds)), "cloud stop")) << "the ladder is climbed";
  project.thresholds.max_minutes = 0.1;
  EXPECT_TRUE(has(advice(gate_record("a1", 0.9, Outcome::fails)), "as you like")) << "open, but beyond the plan";
}

TEST(Summary, NothingIsAddedAcrossKindsOfEvidence) {
  Record here = compare_record("b1", "KEEP", 0.10);
  here.evidence = Evidence{.kind = "measured", .where = "cpu: Xeon"};
  Record simulated = compare_record("b2", "KEEP", 0.20);
  simulated.evidence = Evidence{.kind = "virtual", .where = "l4"};
  Record measured_gate = gate_record("a1", 0.8, Outcome::fails);
  measured_gate.evidence = here.evidence;
  Record other_gate = gate_record("a2", 1.6, Outcome::holds);
  other_gate.evidence = simulated.evidence;
  const RunSummary summary = run_summary({measured_gate, here, simulated, other_gate}, "tuesday", std::nullopt);
  ASSERT_EQ(summary.kept.size(), 2U);
  EXPECT_NEAR(summary.kept[0].gain, 0.10, 1e-9);
  EXPECT_EQ(summary.kept[0].evidence, "measured (cpu: Xeon)");
  EXPECT_NEAR(summary.kept[1].gain, 0.20, 1e-9);
  EXPECT_NEAR(find_named(summary.before, "target")->speedup, 1.6, 1e-9) << "0.8x is of another kind";
}

TEST(Summary, WhatIsNotAsItWasWrittenIsLeftOutAndSaid) {
  Record forged = compare_record("b1", "KEEP", 9);
  forged.standing = Standing::changed;
  const RunSummary summary = run_summary({forged, compare_record("b2", "KEEP", 0.10)}, "tuesday", std::nullopt);
  EXPECT_EQ(summary.left_out, 1);
  ASSERT_EQ(summary.kept.size(), 1U);
  EXPECT_NEAR(summary.kept[0].gain, 0.10, 1e-9);
  EXPECT_TRUE(has(markdown_of(summary), "1 records are left out")) << markdown_of(summary);
}

TEST(Summary, BottlenecksComeFromTheBuildTheNoiseAndTheTime) {
  Record record = gate_record("a1", 0.9, Outcome::fails);
  auto& gates = std::get<GateRecord>(record.body).gates;
  LaunchFacts launch{.workload = "target", .occupancy = 0.25, .limiter = "registers"};
  InstanceFacts instance{.instance = "add<4>", .workloads = {launch}};
  CudaBuildFacts cuda{.instances = {instance}, .device = "l4"};
  gates[0].facts = BuildFacts{.cuda = cuda};
  gates[0].seconds = 9;
  const RunSummary summary = run_summary({record, compare_record("b1", "INCONCLUSIVE", 0.01)}, "tuesday", std::nullopt);
  const std::string markdown = markdown_of(summary);
  EXPECT_TRUE(has(markdown, "add\\<4>: occupancy 25 % in target, limited by registers")) << markdown;
  EXPECT_TRUE(has(markdown, "noise: 1 of 1 comparisons")) << markdown;
  EXPECT_TRUE(has(markdown, "time: build took 21 %")) << markdown;
}

TEST(Summary, RunsStandSideBySide) {
  Record later = compare_record("b2", "KEEP", 0.20);
  later.run = "wednesday";
  const auto runs = all_runs({compare_record("b1", "KEEP", 0.10), later}, std::nullopt);
  ASSERT_EQ(runs.size(), 2U);
  const std::string markdown = runs_markdown(runs);
  EXPECT_TRUE(has(markdown, "| tuesday |") && has(markdown, "| wednesday |")) << markdown;
  EXPECT_TRUE(has(markdown, "| 1 | 1 | +20.00 % target (not recorded) |")) << markdown;
}

Record iteration_record(const std::string& id, const std::string& verdict, const IterationRecord& body) {
  Record record = record_for_test(id, verdict);
  record.kind = IterationRecord::kind;
  record.seconds = 50;
  record.body = body;
  return with_line(record);
}

Record predicted_comparison(const std::string& id, double base_cycles, double candidate_cycles) {
  Record record = record_for_test(id, "PREDICTED");
  record.kind = CompareRecord::kind;
  record.device = "virtual:l4";
  record.evidence = Evidence{.kind = predicted_evidence, .where = "l4"};
  record.seconds = 30;
  record.body = CompareRecord{
      .workload = "target",
      .predicted = PredictedGain{.base_cycles = base_cycles, .candidate_cycles = candidate_cycles, .needed = 0.1}};
  return with_line(record);
}

// A loop on a virtual GPU: what it kept is predicted, and said so; what it left or refused has its reason.
TEST(Summary, OfALoopHasEachChangeWithItsEffectAndItsGround) {
  const std::vector<Record> records{
      predicted_comparison("c1", 2000, 1000),
      iteration_record("i1", "PREDICTED",
                       {.hypothesis = "more CTAs", .comparison = "c1", .decision = "advance", .ground = "as foretold"}),
      predicted_comparison("c2", 1000, 990),
      iteration_record("i2", "PREDICTED",
                       {.hypothesis = "wider loads", .comparison = "c2", .decision = "leave", .ground = "too little"}),
      iteration_record("i3", "REFUSED",
                       {.hypothesis = "edit the judge", .decision = "leave", .ground = "not allowed"})};
  const RunSummary summary = run_summary(records, "tuesday", std::nullopt);
  ASSERT_EQ(summary.changes.size(), 3U);
  EXPECT_EQ(summary.changes[0].fate, Fate::kept);
  EXPECT_EQ(summary.changes[1].fate, Fate::left);
  EXPECT_EQ(summary.changes[2].fate, Fate::refused);
  EXPECT_NEAR(summary.busy_seconds, 3 * 50, 1e-9) << "a comparison is part of its iteration";
  ASSERT_EQ(summary.endpoints.size(), 1U);
  EXPECT_EQ(summary.endpoints[0].evidence, "predicted (l4, error unknown)");
  const std::string markdown = markdown_of(summary);
  for (const char* part : {"| cycles of a call | 2000 | 1000 | 2x fewer | predicted (l4, error unknown) |",
                           "| more CTAs | kept | PREDICTED | +100.0 % predicted, 2000 -> 1000 cycles |",
                           "- wider loads (left): too little", "- edit the judge (refused): not allowed",
                           "measure it on a card", "No price given"}) {
    EXPECT_TRUE(has(markdown, part)) << part << "\n" << markdown;
  }
}

TEST(Summary, MoneyIsWhatWasSpentAndWhatIsLeft) {
  RunSummary summary{.planned_dollars = 1, .prices = Prices{.machine = 0.8}, .cost = {.machine = 0.25, .total = 0.25}};
  EXPECT_EQ(money_text(summary),
            "$0.2500 spent: machine $0.2500 at $0.8 an hour, agent $0.0000 at $0 an hour. $0.7500 of $1 left.");
  summary.cost.total = 1.5;
  EXPECT_TRUE(has(money_text(summary), "$0.5000 over $1.")) << money_text(summary);
  EXPECT_TRUE(has(money_text({}), "No price given"));
}

TEST(Summary, WordsOfOthersStayWords) {
  Record hostile = compare_record("b1", "KEEP", 0.10);
  std::get<CompareRecord>(hostile.body).note = "<img src=x> ![a](http://x) [b](javascript:c) `d` *e*\n# f";
  const std::string markdown = markdown_of(run_summary({hostile}, "tuesday", std::nullopt));
  EXPECT_TRUE(has(markdown, "\\<img src=x> ![a]\\(http\\://x) [b]\\(javascript:c) \\`d\\` \\*e\\* # f")) << markdown;
}

TEST(Summary, OfARunWithoutRecordsSaysSo) {
  const std::string markdown = markdown_of(run_summary({}, "nothing", std::nullopt));
  EXPECT_TRUE(has(markdown, "No comparison"));
  EXPECT_TRUE(has(markdown, "Nothing is open"));
}

}  // namespace
}  // namespace flashmoe::workflow
