// The sequence as a whole: what runs, what does not, what is recorded, and a baseline that drifted.
#include "workflow/gates/gates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "workflow/gates/performance.hpp"
#include "workflow/gates/record.hpp"
#include "workflow/gates/sleeping_project_for_test.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int baseline_microseconds = SleepingProject::baseline_microseconds;

TEST(TimedGates, AllHoldAndAreRecordedAndADriftedBaselineStopsTheNextRun) {
  SleepingProject sleeping("2");
  const GateRun first = sleeping.run();
  ASSERT_EQ(gate(first, "performance").outcome, Outcome::holds) << report_text(first, false);
  EXPECT_EQ(bisect_code(first), 0);
  EXPECT_TRUE(gate(first, "profile").not_run);
  EXPECT_EQ(gate(first, "profile").summary, "not run: at least as fast as the baseline");
  Journal journal(sleeping.project.directory);
  const auto records = journal.read();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1u);
  EXPECT_EQ(records->front().verdict, "holds");
  const auto* record = records->front().as<GateRecord>();
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->gates.size(), all_gates().size());
  EXPECT_TRUE(record->gates == first.gates) << "what is read is what was written";
  const BaselineRecord* measured = find_named(record->baselines, "tiny");
  ASSERT_NE(measured, nullptr);
  constexpr double slept_seconds = baseline_microseconds * 1e-6;
  EXPECT_GE(measured->seconds, slept_seconds);

  // As if an earlier commit had measured a baseline that slept a tenth.
  Record drifted;
  drifted.body = GateRecord{.baselines = {{"tiny", {.seconds = slept_seconds / 10, .facts = {.commit = "0123abcd"}}}}};
  ASSERT_TRUE(journal.append(drifted));
  const GateRun second = sleeping.run();
  const GateResult& stopped = gate(second, "performance");
  EXPECT_EQ(stopped.outcome, Outcome::inconclusive) << report_text(second, false);
  EXPECT_EQ(std::get<PerformanceFacts>(stopped.facts).failure, "baseline drift");
  EXPECT_NE(stopped.summary.find("the baseline drifted +"), std::string::npos) << stopped.summary;
  EXPECT_NE(stopped.summary.find("per call now, 2 ms in record"), std::string::npos) << stopped.summary;
  EXPECT_NE(stopped.summary.find("waited for the rest: other load"), std::string::npos) << stopped.summary;
  EXPECT_NE(stopped.summary.find("commit: 0123abcd then"), std::string::npos) << stopped.summary;
  EXPECT_NE(stopped.findings.back().fix.find("--accept-baseline"), std::string::npos);
  EXPECT_EQ(exit_code(second.outcome), 3);
  EXPECT_EQ(bisect_code(second), 125);
  // The stopped run leaves no baseline to compare with.
  EXPECT_TRUE(second.record.as<GateRecord>()->baselines.empty());

  GateOptions accept;
  accept.accept_baseline = true;
  const GateRun third = sleeping.run(accept);
  EXPECT_EQ(third.outcome, Outcome::holds) << report_text(third, false);
  // The first and the third came to a figure.
  const auto& facts = std::get<PerformanceFacts>(gate(third, "performance").facts);
  EXPECT_EQ(facts.look, 2);
  const SpeedFacts& speed = *facts.workloads.back().second.speed;
  EXPECT_DOUBLE_EQ(speed.ratio.alpha, 0.05 / 6);
  EXPECT_EQ(speed.processor_clock_blocks, 0) << "both sleep";
  EXPECT_NE(gate(third, "performance").summary.find("look 2 at this kernel"), std::string::npos)
      << gate(third, "performance").summary;
}

// What chance gave a process, its memory's place or here the length of its sleep, it keeps: another one has another.
TEST(TimedGates, EveryFigureOfTheTimingIsFromFreshProcesses) {
  SleepingProject sleeping("2");
  std::string source = "#include <sys/auxv.h>\n" + SleepingProject::source("2", 4000);
  const std::string fixed = "usleep(4000)";
  source.replace(
      source.find(fixed), fixed.size(),
      "double sleep = 2000; for (int k = *(unsigned char*)getauxval(AT_RANDOM) % 16; k > 0; --k) sleep *= 1.15;"
      " usleep(sleep)");
  sleeping.write("kernel.cpp", source);
  const GateRun run = sleeping.run();
  const auto& workloads = std::get<PerformanceFacts>(gate(run, "performance").facts).workloads;
  ASSERT_FALSE(workloads.empty()) << report_text(run, false);
  ASSERT_TRUE(workloads.back().second.speed) << report_text(run, false);
  const auto& ratios = workloads.back().second.speed->log_ratios;
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  EXPECT_GT(*most - *least, 0.25) << "of " << ratios.size();
}

Record look_at(const std::string& kernel, const std::string& device, bool with_figure) {
  PerformanceFacts facts;
  put_named(facts.workloads, "tiny", MeasuredWorkload{});
  if (with_figure) facts.workloads.back().second.speed.emplace();
  GateResult result;
  result.gate = PerformanceFacts::gate;
  result.facts = std::move(facts);
  Record record;
  record.device = device;
  put_named(record.hashes, "kernel", kernel);
  record.body = GateRecord{.gates = {result}};
  return record;
}

TEST(Looks, AreCountedByKernelAndDevice) {
  const std::vector<Record> history{look_at("a", "cpu", true),  look_at("b", "cpu", true),
                                    look_at("a", "cpu", false), look_at("a", "virtual:l4", true),
                                    look_at("a", "cpu", true),  Record{}};
  EXPECT_EQ(next_look(history, "cpu", "a"), 3);
  EXPECT_EQ(next_look(history, "cpu", "b"), 2);
  EXPECT_EQ(next_look(history, "cpu", "c"), 1);
  EXPECT_EQ(next_look({}, "cpu", "a"), 1);
}

// Whoever it was: what held is about files that are no longer there.
TEST(Gates, FilesThatChangeMeanwhileLeaveTheVerdictOpen) {
  SleepingProject sleeping("2", 0);
  const std::string& directory = sleeping.project.directory;
  // Somebody else's, once the gates have begun to build: no process of the project can write there.
  std::atomic<bool> over = false;
  std::thread planting([&] {
    while (!over && !std::filesystem::exists(directory + "/.cudadent")) std::this_thread::yield();
    std::ofstream(directory + "/numpy.py") << "1";
  });
  GateOptions options;
  options.until = "correctness";
  const GateRun run = sleeping.run(options);
  over = true;
  planting.join();
  EXPECT_EQ(run.outcome, Outcome::inconclusive) << report_text(run, false);
  EXPECT_NE(run.summary.find("numpy.py was not there before"), std::string::npos) << run.summary;
  EXPECT_EQ(run.record.verdict, "inconclusive");
  EXPECT_EQ(sleeping.run(options).outcome, Outcome::holds) << "nothing changed the second time";
}

TEST(Gates, AWrongKernelIsNeverTimed) {
  SleepingProject sleeping("3");
  const GateRun run = sleeping.run();
  EXPECT_EQ(gate(run, "correctness").outcome, Outcome::fails);
  EXPECT_NE(gate(run, "correctness").summary.find("1.5 times"), std::string::npos) << report_text(run, false);
  EXPECT_TRUE(gate(run, "performance").not_run);
  EXPECT_NE(gate(run, "performance").summary.find("not run"), std::string::npos);
  EXPECT_EQ(run.outcome, Outcome::fails);
  EXPECT_EQ(bisect_code(run), 1);
}

// A machine without nvcc judges the C++ kernel all the same.
TEST(Gates, WithoutNvccTheTwinIsNotCheckedAndTheRestHolds) {
  SleepingProject sleeping("2");
  sleeping.write("kernel.cu", "this is never compiled");
  std::ofstream(sleeping.project.file, std::ios::app)
      << "[cuda]\nsources = [\"kernel.cu\"]\n[[cuda.instances]]\nname = \"k\"\ngrid = 1\nblock = 1\n";
  setenv("CUDACXX", "/nowhere/nvcc", 1);
  GateOptions options;
  options.until = "correctness";
  options.record = false;
  const GateRun run = sleeping.run(options);
  unsetenv("CUDACXX");
  EXPECT_EQ(run.outcome, Outcome::holds) << report_text(run, false);
  EXPECT_EQ(exit_code(run), 0);
  EXPECT_NE(gate(run, "build").summary.find("CUDA twin not checked"), std::string::npos) << report_text(run, false);
  EXPECT_EQ(gate(run, "build").findings.back().code, codes::build_twin_not_checked);
}

TEST(Gates, ACodeSaysWhyAndAgreesWithTheExitCode) {
  SleepingProject wrong("3");
  GateOptions options;
  options.until = "correctness";
  options.record = false;
  options.seed = 7;
  const GateRun run = wrong.run(options);
  EXPECT_EQ(run.code, codes::correctness_wrong_result);
  EXPECT_EQ(exit_code(run), static_cast<int>(row_of(run.code).exit));
  EXPECT_NE(run.next.find("--until correctness --seed 7"), std::string::npos) << run.next;

  wrong.write("reference.cpp", "no C++ either\n");
  const GateRun unjudged = wrong.run(options);
  EXPECT_EQ(unjudged.code, codes::build_judge_failed) << "nothing is said about the kernel";
  EXPECT_EQ(exit_code(unjudged), 4);

  wrong.write("kernel.cpp", "this is not C++\n");
  options.until.clear();
  options.only = "correctness";
  wrong.write("reference.cpp", SleepingProject::source("2", 0));
  const GateRun unbuilt = wrong.run(options);
  EXPECT_EQ(unbuilt.code, codes::build_compile_failed);
  EXPECT_EQ(exit_code(unbuilt), 1);
  EXPECT_EQ(bisect_code(unbuilt), 125) << "a commit that does not build is neither good nor bad";
}

// Head line and findings do not say the same twice, and the last line says what to type.
TEST(Gates, AScreenSaysEverythingOnce) {
  SleepingProject sleeping("3");
  GateOptions options;
  options.record = false;
  const GateRun run = sleeping.run(options);
  const std::string text = report_text(run, false);
  const std::string& what = gate(run, "correctness").findings.back().what;
  EXPECT_EQ(text.find(what), text.rfind(what)) << text;
  EXPECT_EQ(text.find("1.5 times"), text.rfind("1.5 times")) << text;
  EXPECT_NE(text.find("; next: cudadent gate "), std::string::npos) << text;
  EXPECT_EQ(text.find("\033["), std::string::npos);
  const std::string coloured = report_text(run, true);
  EXPECT_NE(coloured.rfind("\033[1m"), std::string::npos) << "bold on a terminal";
}

TEST(Gates, AMistakeNobodyKnowsIsSaidSo) {
  SleepingProject sleeping("float(i % 3 + 3)");
  GateOptions options;
  options.until = "correctness";
  options.seed = 4711;
  const GateRun run = sleeping.run(options);
  const GateResult& correctness = gate(run, "correctness");
  EXPECT_EQ(correctness.outcome, Outcome::fails) << report_text(run, false);
  EXPECT_EQ(correctness.summary.find("hypotheses"), std::string::npos) << "none is declared: " << correctness.summary;
  EXPECT_NE(correctness.summary.find("no constant factor"), std::string::npos) << correctness.summary;
  EXPECT_NE(correctness.findings.back().where.find("--seed 4711"), std::string::npos);
}

TEST(TimedGates, ASlowKernelIsRefusedByTheTiming) {
  SleepingProject sleeping("2", 3 * baseline_microseconds, "[0.9, 1.0, 1.2, 1.5]");
  const GateRun run = sleeping.run();
  EXPECT_EQ(gate(run, "correctness").outcome, Outcome::holds) << report_text(run, false);
  EXPECT_EQ(gate(run, "performance").outcome, Outcome::fails) << report_text(run, false);
  EXPECT_NE(gate(run, "performance").summary.find("broken"), std::string::npos) << report_text(run, false);
  EXPECT_EQ(bisect_code(run), 1);

  // And the run says why, without being asked.
  const GateResult& profile = gate(run, "profile");
  ASSERT_FALSE(profile.not_run) << report_text(run, false);
  const auto& facts = std::get<ProfileFacts>(profile.facts);
  ASSERT_TRUE(facts.bottleneck) << report_text(run, false);
  EXPECT_EQ(facts.bottleneck->rule, "waiting") << facts.bottleneck->says;
  EXPECT_EQ(facts.workload, "tiny");
  EXPECT_EQ(run.code, codes::performance_broken) << "the verdict is still the clock's";
  EXPECT_NE(run.summary.find("it waits instead of computing"), std::string::npos) << run.summary;
  EXPECT_EQ(run.next.rfind("cudadent profile", 0), 0u) << run.next;

  const auto records = Journal(sleeping.project.directory).read();
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 2u);
  const auto* named = records->front().as<ProfileRecord>();
  ASSERT_NE(named, nullptr) << records->front().kind;
  EXPECT_TRUE(named->profile == facts) << "what is read is what was written";
  EXPECT_EQ(records->front().evidence->kind, measured_evidence);
  EXPECT_GT(*find_named(named->profile.counted, "microseconds"), 3 * baseline_microseconds - 1);
  EXPECT_FALSE(known_good_of(records->front())) << "a bottleneck is nothing to come back to";
}

// A ladder that asks for less is climbed; that it is slower than the baseline is explained all the same.
TEST(TimedGates, BelowTheBaselineIsExplainedAlsoWhereItIsFastEnough) {
  SleepingProject sleeping("2", 2 * baseline_microseconds);
  const GateRun run = sleeping.run();
  EXPECT_EQ(gate(run, "performance").outcome, Outcome::holds) << report_text(run, false);
  ASSERT_TRUE(std::get<ProfileFacts>(gate(run, "profile").facts).bottleneck) << report_text(run, false);
  EXPECT_EQ(run.outcome, Outcome::holds) << report_text(run, false);
  EXPECT_EQ(run.code, "");
  EXPECT_EQ(bisect_code(run), 0);
}

TEST(Gates, UntilStopsBeforeTheTiming) {
  SleepingProject sleeping("2");
  GateOptions options;
  options.until = "correctness";
  options.record = false;
  const GateRun run = sleeping.run(options);
  EXPECT_EQ(run.outcome, Outcome::holds) << report_text(run, false);
  EXPECT_EQ(run.gates.size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(sleeping.project.directory + "/.cudadent/records.jsonl"));
}

TEST(Gates, AKernelThatDoesNotBuildIsSkippedByBisect) {
  SleepingProject sleeping("2");
  sleeping.write("kernel.cpp", "this is not C++\n");
  const GateRun run = sleeping.run();
  EXPECT_NE(gate(run, "build").outcome, Outcome::holds);
  EXPECT_EQ(bisect_code(run), 125);
}

// Facts that no gate of the table has would be read into nobody's result.
TEST(GateTable, HasARowForEveryKindOfFacts) {
  const auto names = gate_names();
  for (const char* facts :
       {EnvironmentFacts::gate, BuildFacts::gate, CorrectnessFacts::gate, PerformanceFacts::gate, ProfileFacts::gate}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), facts), 1) << facts;
    EXPECT_NE(find_gate(facts), nullptr) << facts;
  }
  EXPECT_EQ(find_gate("none"), nullptr);
  EXPECT_EQ(names.size() + 1, std::variant_size_v<AnyGateFacts>);
}

TEST(Ladder, NamesTheRung) {
  const Thresholds thresholds;
  EXPECT_STREQ(rung_of(thresholds, 0.49), "broken");
  EXPECT_STREQ(rung_of(thresholds, 0.5), "bottleneck");
  EXPECT_STREQ(rung_of(thresholds, 1.0), "success");
  EXPECT_STREQ(rung_of(thresholds, 1.3), "target");
  EXPECT_STREQ(rung_of(thresholds, 2.0), "stretch");
}

}  // namespace
}  // namespace flashmoe::workflow
