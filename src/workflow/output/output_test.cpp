// The keys that scripts may rely on. A change here is a change of the format.
#include "workflow/output/output.hpp"

#include <gtest/gtest.h>

#include "support/json.hpp"
#include "workflow/environment/doctor.hpp"
#include "workflow/environment/fake_python_for_test.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/records_for_test.hpp"
#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {
namespace {

using Keys = std::vector<std::string>;

Keys keys_of(const Json& json) {
  Keys keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(Output, OfTheDoctor) {
  const FakePython python(good_basic, good_torch);
  const Json json = Json::parse(doctor_json(examine_machine()));
  EXPECT_EQ(keys_of(json), (Keys{"gate", "outcome", "summary", "seconds", "findings", "data", "evidence"}));
  EXPECT_EQ(json["gate"], "environment");
  EXPECT_EQ(keys_of(json["data"]), (Keys{"cpu", "compilers", "cuda", "gpus", "embedded_images", "counters", "clocks",
                                         "disk", "python", "devices"}));
  EXPECT_EQ(keys_of(json["data"]["cpu"]), (Keys{"model", "cores", "isa"}));
  EXPECT_EQ(keys_of(json["data"]["compilers"]), (Keys{"cxx", "flashmoe_library", "headers"}));
  EXPECT_EQ(keys_of(json["data"]["cuda"]), (Keys{"toolkit", "nvcc", "driver_cuda", "kernel_module"}));
  EXPECT_EQ(keys_of(json["data"]["counters"]), (Keys{"perf_event_paranoid", "nvidia_profiling_admin_only"}));
  EXPECT_EQ(keys_of(json["data"]["clocks"]), (Keys{"governor", "clocksource", "load"}));
  EXPECT_EQ(keys_of(json["data"]["disk"]), (Keys{"directory", "free_gb", "writable"}));
  EXPECT_EQ(json["data"]["python"]["torch"]["version"], "2.15.0");
  EXPECT_EQ(json["data"]["devices"].size(), Json::parse(devices_json()).size());
  for (const Json& finding : json["findings"]) {
    EXPECT_TRUE(finding.contains("severity") && finding.contains("group") && finding.contains("what"));
    EXPECT_EQ(finding["severity"] == "ok", !finding.contains("fix")) << finding.dump();
  }
}

TEST(Output, OfAGateRunIsItsRecordAndTheVerdict) {
  GateRun run;
  run.outcome = Outcome::fails;
  Record draft;
  draft.body = GateRecord{.summary = "s", .cost_per_hour = Prices{}, .seed = 7, .threads = 1};
  run.record = unwritten(draft);
  run.record_problem.what = "no disk";
  const Json json = Json::parse(gate_json(run));
  EXPECT_EQ(keys_of(json),
            (Keys{"kind", "project", "device", "verdict", "evidence", "seconds", "hashes", "summary", "cost_per_hour",
                  "seed", "threads", "baselines", "gates", "outcome", "exit_code", "record_problem"}));
  EXPECT_EQ(json["exit_code"], 1);
}

TEST(Output, OfAProfile) {
  ProfileRun run{.project = "p", .device = "virtual:l4", .workload = "w"};
  run.launches = {
      {.report = {.kernel = "k", .json = R"({"kernel":"k","grid":[2,1,1]})"}, .advice = {{.rule = "grid"}}}};
  const Json json = Json::parse(profile_json(run));
  EXPECT_EQ(keys_of(json), (Keys{"project", "device", "evidence", "workload", "findings", "launches"}));
  EXPECT_EQ(json["evidence"], (Json{{"kind", "virtual"}, {"where", "l4"}}));
  EXPECT_EQ(keys_of(json["launches"][0]), (Keys{"kernel", "advice", "counters"}));
  EXPECT_EQ(json["launches"][0]["counters"]["grid"][0], 2);
}

TEST(Output, OfRecordsIsWhatTheFileHas) {
  const Record record = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  Json expected = Json::parse(record.line);
  expected["standing"] = "chained";
  EXPECT_EQ(Json::parse(record_json(record)), expected);
  EXPECT_EQ(Json::parse(records_json({record, record})).size(), 2U);
}

TEST(Output, OfASummary) {
  const std::vector<Record> records{gate_record("a1", 0.8, Outcome::fails), compare_record("b1", "KEEP", 0.10)};
  const Json json = Json::parse(summary_json(run_summary(records, "tuesday", std::nullopt)));
  EXPECT_EQ(keys_of(json),
            (Keys{"run", "project", "device", "first", "last", "environment", "records", "left_out", "before", "after",
                  "kept", "changes", "gates", "bottlenecks", "time", "cost", "next_goals"}));
  EXPECT_EQ(Json::parse(runs_json(all_runs(records, std::nullopt)))[0], json);
  EXPECT_EQ(keys_of(json["changes"][0]),
            (Keys{"id", "change", "commit", "phase", "workload", "verdict", "gain", "pairs", "minimum_detectable_gain",
                  "problem", "fix", "seconds", "comparison", "evidence"}));
  EXPECT_TRUE(json["changes"][0]["gain"]["upper"].is_null()) << "unbounded";
  EXPECT_TRUE(json["time"]["planned_minutes"].is_null()) << "no project, no plan";
}

TEST(Output, OfASelftestHasBothCountsOfItsCorpus) {
  Record record;
  record.body = SelftestRecord{.corpus = CorpusCounts{.cheats = 40, .refused = 39, .honest = 30, .passed = 30}};
  const Json json = Json::parse(selftest_json(record));
  EXPECT_EQ(keys_of(json["corpus"]), (Keys{"cheats", "refused", "honest", "passed", "not_run", "asked_again"}));
  EXPECT_EQ(json["corpus"]["cheats"], 40);
  EXPECT_EQ(json["corpus"]["refused"], 39);
  EXPECT_EQ(json["corpus"]["honest"], 30);
}

TEST(Output, OfTwoRecordsSideBySide) {
  const Json json = Json::parse(side_by_side_json(
      side_by_side(compare_record("aaaabbbbcccc", "KEEP", 0.05), compare_record("bbbbccccdddd", "REVERT", 0.10))));
  EXPECT_EQ(keys_of(json), (Keys{"a", "b", "same", "differs"}));
  EXPECT_EQ(json["a"], "aaaabbbbcccc");
  for (const Json& row : json["differs"]) EXPECT_TRUE(row.contains("key") && row.contains("a") && row.contains("b"));
}

TEST(Output, OfAProblem) {
  EXPECT_EQ(Json::parse(problem_json("verdict", "could not run", {.message = "m", .fix = "f"})),
            (Json{{"verdict", "could not run"}, {"problem", "m"}, {"fix", "f"}}));
  EXPECT_EQ(keys_of(Json::parse(problem_json("", "", {.message = "m"}))), (Keys{"problem", "fix"}));
}

}  // namespace
}  // namespace flashmoe::workflow
