#include "workflow/report/status.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Record gated(const std::string& id, const std::string& on, Outcome outcome, const std::string& code = "") {
  Record record;
  record.id = id;
  record.kind = GateRecord::kind;
  record.device = on;
  record.verdict = name_of(outcome);
  record.time = "2026-11-16T06:15:55Z";
  GateResult last{.gate = "correctness", .outcome = outcome, .summary = "what was seen"};
  last.code = code;
  record.body = GateRecord{.summary = "correctness: what was seen", .seed = 7, .gates = {last}};
  return record;
}

Project here() {
  Project project;
  project.name = "mine";
  project.directory = std::filesystem::current_path().string();
  return project;
}

TEST(Status, IsTheLastVerdictOnEachDevice) {
  const StatusReport report = status_of(
      here(), {gated("a", "cpu", Outcome::fails, codes::correctness_wrong_result),
               gated("b", "virtual:l4", Outcome::fails, codes::gpu_racecheck), gated("c", "cpu", Outcome::holds)});
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].id, "c");
  EXPECT_EQ(report.devices[0].outcome, Outcome::holds);
  EXPECT_EQ(report.devices[0].code, "");
  EXPECT_EQ(report.devices[1].code, codes::gpu_racecheck);
  EXPECT_EQ(report.next, report.devices[0].next) << "the latest leads on";
  EXPECT_EQ(report.devices[1].next, "cudadent gate --device virtual:l4 --until correctness --seed 7");
  const std::string text = status_text(report, false);
  EXPECT_NE(text.find("virtual:l4"), std::string::npos) << text;
  EXPECT_EQ(text.find("\033["), std::string::npos) << text;
}

Record timed(Outcome outcome, const std::string& code) {
  Record record = gated("t", "cpu", outcome, code);
  auto& run = std::get<GateRecord>(record.body);
  run.gates = {{.gate = "correctness", .outcome = Outcome::holds},
               {.gate = "performance", .outcome = outcome, .code = code}};
  return record;
}

// An environment that holds says nothing of a kernel.
TEST(Status, APartThatHoldsIsNotTheWhole) {
  StatusReport report = status_of(here(), {timed(Outcome::fails, ""), gated("c", "cpu", Outcome::holds)});
  EXPECT_FALSE(report.devices.at(0).whole);
  std::string text = status_text(report, false);
  EXPECT_NE(text.find("holds in part"), std::string::npos) << text;
  EXPECT_NE(text.find("correctness: what was seen"), std::string::npos) << text;
  EXPECT_EQ(outcome_of(status_of(here(), {timed(Outcome::holds, "")}).devices.at(0)), "holds");
  report.problems = {"record number 9 of this writer is missing"};
  text = status_text(report, false);
  EXPECT_NE(text.find("number 9"), std::string::npos) << text;
}

// Records from before there was a gate that explains say as much as they did.
TEST(Status, AnOldRunUpToTheTimingIsWhole) {
  EXPECT_EQ(status_of(here(), {timed(Outcome::holds, "")}).next, "cudadent compare");
}

TEST(Status, AnExplanationIsNotTheVerdict) {
  for (const Outcome outcome : {Outcome::fails, Outcome::inconclusive}) {
    Record record = timed(outcome, codes::performance_too_slow);
    std::get<GateRecord>(record.body)
        .gates.push_back({.gate = "profile", .outcome = Outcome::inconclusive, .code = codes::profile_degraded});
    EXPECT_EQ(status_of(here(), {record}).devices.front().code, codes::performance_too_slow);
  }
}

// What was forged or changed says nothing about the project.
TEST(Status, CountsOnlyRecordsAsTheyWereWritten) {
  Record forged = gated("f", "cpu", Outcome::holds);
  forged.standing = Standing::foreign;
  const StatusReport report = status_of(here(), {forged});
  EXPECT_TRUE(report.devices.empty());
  EXPECT_EQ(report.next, "cudadent gate");
}

TEST(Status, SaysHowToBeginWhereThereIsNothing) {
  const StatusReport report = nothing_here("/somewhere\033[2J");
  EXPECT_EQ(report.next, "cudadent new");
  const std::string text = status_text(report, false);
  EXPECT_NE(text.find("cudadent new"), std::string::npos);
  EXPECT_EQ(text.find('\033'), std::string::npos) << "a path cannot move the cursor";
}

}  // namespace
}  // namespace flashmoe::workflow
