// The keys that scripts may rely on. A change here is a change of the format.
#include "workflow/output/output.hpp"

#include <gtest/gtest.h>

#include "support/json.hpp"
#include "workflow/environment/doctor.hpp"
#include "workflow/environment/fake_python_for_test.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/profile_gate.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/journal/records_for_test.hpp"
#include "workflow/report/summary.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

using Keys = std::vector<std::string>;

const Answer whole{.command = "c", .exit_code = 1, .code = codes::kernel_hung, .next = "cudadent status"};
const Answer brief{.command = "c", .exit_code = 1, .code = codes::kernel_hung, .next = "n", .is_short = true};

// The fields of every answer, then its own.
Keys with_envelope(const Keys& own) {
  Keys keys{"schema_version", "command", "exit_code", "code", "next"};
  keys.insert(keys.end(), own.begin(), own.end());
  return keys;
}

Keys keys_of(const Json& json) {
  Keys keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(Output, OfTheDoctor) {
  const FakePython python(good_basic, good_torch);
  const Json json = Json::parse(doctor_json(whole, examine_machine()));
  EXPECT_EQ(keys_of(json),
            with_envelope(Keys{"gate", "outcome", "summary", "seconds", "findings", "data", "evidence"}));
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
  EXPECT_EQ(json["data"]["devices"].size(), Json::parse(devices_json(whole))["devices"].size());
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
  const Json json = Json::parse(gate_json(whole, run));
  EXPECT_EQ(keys_of(json),
            with_envelope(Keys{"kind", "project", "device", "verdict", "evidence", "seconds", "hashes", "summary",
                               "cost_per_hour", "seed", "threads", "baselines", "gates", "outcome", "record_problem"}));
  EXPECT_EQ(json["exit_code"], 1);
}

TEST(Output, OfAProfile) {
  Profile profile{.run = {.project = "p", .device = "virtual:l4", .workload = "w"}};
  profile.result.facts = ProfileFacts{.workload = "w", .bottleneck = BottleneckFacts{.rule = "grid"}};
  profile.run.launches = {
      {.report = {.kernel = "k", .json = R"({"kernel":"k","grid":[2,1,1]})"}, .advice = {{.rule = "grid"}}}};
  const Json json = Json::parse(profile_json(whole, profile));
  EXPECT_EQ(keys_of(json), with_envelope(Keys{"outcome", "project", "device", "evidence", "workload", "summary",
                                              "profile", "findings", "launches"}));
  EXPECT_EQ(json["profile"]["bottleneck"]["rule"], "grid");
  EXPECT_EQ(Json::parse(profile_json(brief, profile))["bottleneck"]["rule"], "grid");
  EXPECT_EQ(json["evidence"], (Json{{"kind", "virtual"}, {"where", "l4"}}));
  EXPECT_EQ(keys_of(json["launches"][0]), (Keys{"kernel", "share", "advice", "counters"}));
  EXPECT_EQ(json["launches"][0]["counters"]["grid"][0], 2);
}

TEST(Output, OfRecordsIsWhatTheFileHas) {
  const Record record = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  Json expected = Json::parse(record.line);
  expected["standing"] = "chained";
  const Json shown = Json::parse(record_json(whole, record));
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(shown[key], value) << key;
  EXPECT_EQ(Json::parse(records_json(whole, {record, record}))["records"].size(), 2U);
}

TEST(Output, OfASummary) {
  const std::vector<Record> records{gate_record("a1", 0.8, Outcome::fails), compare_record("b1", "KEEP", 0.10)};
  const Json json = Json::parse(summary_json(whole, run_summary(records, "tuesday", std::nullopt)));
  EXPECT_EQ(keys_of(json),
            with_envelope(Keys{"run",      "project",     "device", "first", "last",      "environment", "records",
                               "left_out", "missing",     "before", "after", "endpoints", "kept",        "changes",
                               "gates",    "bottlenecks", "time",   "cost",  "stopped",   "next_goals"}));
  const Json of_all = Json::parse(runs_json(whole, all_runs(records, std::nullopt)))["runs"][0];
  for (const auto& [key, value] : of_all.items()) EXPECT_EQ(json[key], value) << key;
  EXPECT_EQ(keys_of(json["changes"][0]),
            (Keys{"id", "change", "commit", "fate", "why", "phase", "workload", "verdict", "gain", "predicted_gain",
                  "pairs", "minimum_detectable_gain", "problem", "fix", "seconds", "comparison", "evidence"}));
  EXPECT_TRUE(json["changes"][0]["gain"]["upper"].is_null()) << "unbounded";
  EXPECT_TRUE(json["time"]["planned_minutes"].is_null()) << "no project, no plan";
}

TEST(Output, OfASelftestHasBothCountsOfItsCorpus) {
  Record record;
  record.body = SelftestRecord{.corpus = CorpusCounts{.cheats = 40, .refused = 39, .honest = 30, .passed = 30}};
  const Json json = Json::parse(selftest_json(whole, record));
  EXPECT_EQ(keys_of(json["corpus"]), (Keys{"cheats", "refused", "honest", "passed", "not_run", "asked_again"}));
  EXPECT_EQ(json["corpus"]["cheats"], 40);
  EXPECT_EQ(json["corpus"]["refused"], 39);
  EXPECT_EQ(json["corpus"]["honest"], 30);
}

TEST(Output, OfTwoRecordsSideBySide) {
  const Json json = Json::parse(side_by_side_json(whole, side_by_side(compare_record("aaaabbbbcccc", "KEEP", 0.05),
                                                                      compare_record("bbbbccccdddd", "REVERT", 0.10))));
  EXPECT_EQ(keys_of(json), with_envelope(Keys{"a", "b", "same", "differs"}));
  EXPECT_EQ(json["a"], "aaaabbbbcccc");
  for (const Json& row : json["differs"]) EXPECT_TRUE(row.contains("key") && row.contains("a") && row.contains("b"));
}

TEST(Output, OfAnErrorHasAllOfThem) {
  Diagnostic problem{.message = "m",
                     .fix = "f",
                     .file = "cudadent.toml",
                     .line = 3,
                     .column = 5,
                     .key = "name",
                     .code = codes::project_value};
  problem.more.push_back({.message = "other"});
  const Json json = Json::parse(error_json(whole, problem));
  EXPECT_EQ(keys_of(json), with_envelope(Keys{"outcome", "error", "errors"}));
  EXPECT_EQ(keys_of(json["error"]), (Keys{"code", "message", "fix", "file", "line", "column", "key"}));
  EXPECT_EQ(json["errors"].size(), 2U);
  EXPECT_EQ(json["errors"][1]["code"], codes::could_not_run) << "every problem has a code";
}

// However much there is to say.
TEST(Output, ShortIsShort) {
  const std::string noise(3000, 'x');
  GateRun run;
  run.summary = noise;
  for (int i = 0; i < 300; ++i) {
    run.gates.push_back({.gate = "build", .summary = noise, .facts = {}});
    run.gates.back().findings.push_back({Severity::error, "g", noise, noise, noise, codes::build_resources});
  }
  const std::string text = gate_json(brief, run);
  EXPECT_LE(text.size(), 4096U);
  const Json json = Json::parse(text);
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["next"], "n");
  EXPECT_EQ(json["code"], codes::kernel_hung);
  EXPECT_GT(json["left_out"], 0);
  EXPECT_FALSE(json["findings"].empty()) << text;

  Profile profile{.run = {.project = "p", .device = "virtual:l4", .workload = "w"}};
  profile.result.facts = ProfileFacts{.bottleneck = BottleneckFacts{.says = noise, .where = noise, .change = noise}};
  profile.result.findings = run.gates.front().findings;
  LaunchProfile launch{.report = {.kernel = noise, .json = R"({"a":")" + std::string(500'000, 'y') + R"("})"}};
  launch.advice.assign(50, {.rule = "grid", .says = noise, .where = noise, .fix = noise});
  profile.run.launches.assign(100, launch);
  EXPECT_LE(profile_json(brief, profile).size(), 4096U);

  const std::vector<Record> records(500, compare_record("aaaabbbbcccc", "KEEP", 0.05));
  EXPECT_LE(records_json(brief, records).size(), 4096U);
  EXPECT_LE(summary_json(brief, run_summary(records, "tuesday", std::nullopt)).size(), 4096U);
  EXPECT_LE(error_json(brief, {.message = std::string(100'000, '"'), .fix = noise}).size(), 4096U);
  EXPECT_LE(devices_json(brief).size(), 4096U);
}

TEST(Output, AShortTextEndsBetweenCharacters) {
  std::string message;
  for (int i = 0; i < 4000; ++i) message += "é";
  const std::string text = error_json(brief, {.message = message});
  EXPECT_LE(text.size(), 4096U);
  EXPECT_EQ(text.find("\xEF\xBF\xBD"), std::string::npos) << "no replacement character";
}

TEST(Output, TheSchemaOfAnswersKnowsEveryCode) {
  const Json schema = Json::parse(answers_schema_json());
  EXPECT_EQ(schema["$defs"]["code"]["enum"].size(), all_codes().size());
  EXPECT_EQ(Json::parse(codes_json(whole))["codes"].size(), all_codes().size());
}

}  // namespace
}  // namespace flashmoe::workflow
