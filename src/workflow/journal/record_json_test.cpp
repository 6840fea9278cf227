// Records as types and back: what this version writes, what the first one wrote, and what somebody broke.
#include "workflow/journal/record_json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "support/json_text.hpp"
#include "workflow/journal/difference.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/partial.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// Objects without an order.
using Unordered = nlohmann::json;

const fs::path test_data = fs::path(__FILE__).parent_path() / "test_data";

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<Record> first_records() {
  std::vector<Record> records;
  for (const std::string& line : lines_of(test_data / "records_v1.jsonl"))
    records.push_back(record_from(Json::parse(line)));
  return records;
}

// Real records, written before records were types; paths and the host's name in them are made up.
TEST(FirstRecords, ReadAsWhatTheyAre) {
  const auto records = first_records();
  std::map<std::string, int> kinds;
  for (const Record& record : records) {
    ++kinds[record.kind];
    EXPECT_FALSE(record.id.empty() || record.verdict.empty() || record.time.empty());
    EXPECT_EQ(record.as<OtherRecord>(), nullptr) << record.kind;
    ASSERT_TRUE(record.environment);
    EXPECT_EQ(record.environment->host, "machine");
  }
  EXPECT_EQ(kinds, (std::map<std::string, int>{
                       {"compare", 6}, {"gate", 11}, {"known_good", 1}, {"reproduce", 2}, {"selftest", 1}}));
}

// What a record says about a GPU is what the table knew that day; its id is what stays.
void forget_the_table(Unordered& json) {
  for (auto& [key, value] : json.items()) {
    if (key == "device" && value.is_object()) value = value["id"];
    if (value.is_structured()) forget_the_table(value);
  }
}

// Every single value has its place in a type: written again, nothing is lost and nothing is added.
TEST(FirstRecords, AreTheSameWhenTheyAreWrittenAgain) {
  const auto records = first_records();
  ASSERT_FALSE(records.empty());
  for (const Record& record : records) {
    Unordered before = Unordered::parse(record.line);
    Json again = complete_json(record);
    again["id"] = record.id;
    Unordered after = Unordered::parse(again.dump());
    forget_the_table(before);
    forget_the_table(after);
    EXPECT_EQ(after, before) << record.kind << " " << record.id << ": " << Unordered::diff(before, after).dump(1);
  }
}

TEST(FirstRecords, SayWhatTheySaid) {
  const auto records = first_records();
  const auto* gate = records[0].as<GateRecord>();
  ASSERT_NE(gate, nullptr);
  ASSERT_EQ(gate->gates.size(), 4U);
  const auto& environment = std::get<EnvironmentFacts>(gate->gates[0].facts);
  EXPECT_EQ(environment.device, "cpu");
  EXPECT_GT(environment.cpu->cores, 0U);
  const auto& build = std::get<BuildFacts>(gate->gates[1].facts);
  ASSERT_TRUE(build.cpu && build.cuda);
  EXPECT_EQ(build.cpu->size(), 3U);
  EXPECT_EQ(build.cuda->device, "l4");
  EXPECT_EQ(build.cuda->instances.at(0).workloads.at(0).grid.size(), 3U);
  EXPECT_FALSE(std::get<CorrectnessFacts>(gate->gates[2].facts).cases.empty());
  const auto& speed = find_named(std::get<PerformanceFacts>(gate->gates[3].facts).workloads, "target")->speed;
  ASSERT_TRUE(speed);
  EXPECT_GT(speed->ratio.mean, speed->ratio.lower);
  EXPECT_EQ(speed->log_ratios.size() * 6, speed->kernel_samples.size());
  EXPECT_GT(find_named(gate->baselines, "target")->seconds, 0);

  const auto* comparison = records[5].as<CompareRecord>();
  ASSERT_NE(comparison, nullptr);
  EXPECT_EQ(records[5].verdict, "REVERT");
  EXPECT_EQ(comparison->samples.size(), comparison->pairs_used);
  EXPECT_EQ(comparison->samples.at(0).block_log_ratios.size(), 5U);
  EXPECT_GT(comparison->samples.at(0).before->load_1min.value_or(0), 0);
  EXPECT_EQ(comparison->recipe->argv.at(0), "compare");
  EXPECT_EQ(detail_of(records[5]), "+8.58 % [-38.80 %, +92.64 %] target: HEAD -> .  (a | note)");
}

TEST(FirstRecords, AComparisonThatWasStoppedGoesOn) {
  std::string name = (fs::temp_directory_path() / "record_json_test_XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  fs::create_directories(fs::path(name) / ".cudadent" / "partial");
  fs::copy_file(test_data / "partial_v1.jsonl", fs::path(name) / ".cudadent" / "partial" / "key.jsonl");
  const auto stored = PartialComparison(name, "key").load();
  fs::remove_all(name);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->header.seed, 21U);
  EXPECT_EQ(stored->header.index, 2);
  EXPECT_EQ(stored->header.run, "golden");
  EXPECT_EQ(stored->comparison.calibration_pairs.size(), 8U);
  EXPECT_EQ(stored->comparison.pairs.size(), 1U);
}

TEST(Partial, PairsComeBackAndTornOnesDoNot) {
  std::string name = (fs::temp_directory_path() / "record_json_test_XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const PartialComparison partial(name, "key");
  EXPECT_FALSE(partial.exists());
  ASSERT_TRUE(partial.begin({.seed = 5, .index = 2}));
  PairSample first{.block_log_ratios = {0.1, 0.25}, .log_ratio = 0.25, .total_log_ratio = 0.2, .base_seconds = 2};
  first.before = CpuState{.load_1min = 0.5, .cpu_mhz = {{1000.0, 2700.0}}, .governor = "performance"};
  ASSERT_TRUE(partial.add(true, first));
  const PairSample second{.log_ratio = -0.5};
  ASSERT_TRUE(partial.add(false, second));
  std::ofstream(fs::path(name) / ".cudadent" / "partial" / "key.jsonl", std::ios::app)
      << "{\"calibrating\":false,\"sample\":{}}\n{\"calibrating\":false,\"sample\":[1]}\n{\"calibrating\":false,\"sam";
  const auto loaded = partial.load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->header.seed, 5U);
  EXPECT_EQ(loaded->header.index, 2);
  EXPECT_FALSE(loaded->header.key);
  ASSERT_EQ(loaded->comparison.calibration_pairs.size(), 1U);
  EXPECT_TRUE(loaded->comparison.calibration_pairs[0] == first);
  ASSERT_EQ(loaded->comparison.pairs.size(), 1U);
  EXPECT_TRUE(loaded->comparison.pairs[0] == second);
  partial.forget();
  EXPECT_FALSE(partial.exists());
  fs::remove_all(name);
}

// The key of a comparison that another version began must be found by this one.
TEST(Partial, TheKeyIsWhatItWas) {
  EXPECT_EQ(comparison_key({.base_sha256 = "a",
                            .candidate_sha256 = "b",
                            .workload = "target",
                            .host = "machine",
                            .block_seconds = 0.004,
                            .final_claim = false}),
            "3fb8e96fa0691d16");
}

ProfileFacts profile_facts() {
  return {.workload = "target",
          .seed = 9,
          .counters = "degraded",
          .degraded = "no counters: why",
          .debug = true,
          .kernel = "k",
          .counted = {{"z", 1.5}, {"a", 2}},
          .bottleneck = BottleneckFacts{.rule = "grid",
                                        .bottleneck = "b",
                                        .says = "b: 2",
                                        .where = "k.cu:1",
                                        .change = "c",
                                        .expected = {.name = "sms", .from = 2, .to = 4},
                                        .expected_gain = 29},
          .further = {"waves"}};
}

TEST(RecordJson, AProfileSurvives) {
  const ProfileRecord body{.summary = "s", .threads = 2, .point = {{"stages", 2}}, .profile = profile_facts()};
  Record record;
  record.kind = ProfileRecord::kind;
  record.body = body;
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  ASSERT_NE(again.as<ProfileRecord>(), nullptr);
  EXPECT_TRUE(*again.as<ProfileRecord>() == body);
}

TEST(RecordJson, ARunSurvives) {
  const RunRecord body{.start = "a",
                       .end = "b",
                       .iterations = 3,
                       .kept = 2,
                       .stopped = "3 iterations",
                       .bottlenecks = {"grid too small", "bank conflicts"},
                       .busiest_sm_at_start = 20,
                       .busiest_sm_at_end = 10,
                       .baseline = "torch",
                       .ratio_at_start = 0.5,
                       .ratio_at_end = 1.5,
                       .max_iterations = 3,
                       .max_minutes = 10,
                       .max_dollars = 0.5,
                       .summary = "s"};
  Record record;
  record.kind = RunRecord::kind;
  record.body = body;
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  ASSERT_NE(again.as<RunRecord>(), nullptr);
  EXPECT_TRUE(*again.as<RunRecord>() == body);
}

template <class Body>
void expect_survives(const Body& body) {
  Record record;
  record.kind = Body::kind;
  record.body = body;
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  ASSERT_NE(again.as<Body>(), nullptr);
  EXPECT_TRUE(*again.as<Body>() == body);
}

// Counts decide: they come back to the last bit.
TEST(RecordJson, WhatShardsShareSurvives) {
  expect_survives(BatchRecord{.parent = "p",
                              .seed = std::uint64_t{1} << 63,
                              .candidates = {{.commit = "c", .hypothesis = "h", .files = {{"a", "x\n"}, {"b", {}}}}},
                              .summary = "s"});
  expect_survives(CountRecord{.candidate = "c",
                              .hypothesis = "h",
                              .seed = 7,
                              .cycles = 0.1 + 0.2,
                              .predicted = 1.0 / 3,
                              .counters = {{"waves", 1e-300}, {"sectors", 1e17 + 2}},
                              .summary = "s"});
  expect_survives(CountRecord{});
  expect_survives(TraceRecord{.format = "f", .definition = "d", .solution = "s", .hardware = "h", .trace = "{}"});
}

TEST(RecordJson, FactsOfEveryKindSurvive) {
  GateRecord run{.summary = "s", .seed = 7, .threads = 2, .point = {{"stages", 2}}};
  GateResult environment{.gate = EnvironmentFacts::gate, .outcome = Outcome::inconclusive, .summary = "x"};
  environment.findings = {{Severity::warning, "gpu", "what", "where", "fix"}};
  environment.facts = EnvironmentFacts{
      .cuda = CudaFacts{.toolkit = "13.0", .gpus = {{"NVIDIA L4", "sm_89", 58}}, .embedded_images = {{"sm_80"}}},
      .disk = DiskFacts{.directory = "/x"},
      .python_asked = true,
      .python = PythonFacts{.version = "3.11",
                            .numpy = PackageFacts{.installed = true, .loads = false, .error = "ImportError: x"},
                            .torch_asked = true,
                            .torch = PackageFacts{.installed = true, .loads = true, .cuda = {{std::nullopt}}}},
      .devices = {"l4", "h100"}};
  GateResult correctness{.gate = CorrectnessFacts::gate, .outcome = Outcome::fails};
  correctness.facts = CorrectnessFacts{
      .seed = std::uint64_t{1} << 60,
      .failure = "wrong",
      .wrong = WrongFacts{.case_name = "tiny", .position = {0, 3}, .expected = 1, .got = 2, .schedule = "natural"},
      .diagnosis = Diagnosis{"pattern", "factor", "cause", "fix"},
      .schedules = {"natural", "adversarial, seed 2"},
      .virtual_faults = {"stopped"},
      .virtual_findings = {R"({"check":"memcheck","times":3})"}};
  GateResult stopped{.gate = PerformanceFacts::gate, .stopped = "preempted"};
  stopped.facts = PerformanceFacts{
      .baseline = "b",
      .workloads = {{"z", {.values = {{"n", 8}}, .speed = SpeedFacts{.rung = "target", .processor_clock_blocks = 5}}},
                    {"a", {.baseline_differences = {{"commit: x then, y now"}}}}},
      .look = 3,
      .predicted = PredictedSpeedFacts{.workload = "z", .baseline_sha256 = "ab", .ratio = 2.5, .doubts = {"why"}}};
  GateResult skipped{.gate = BuildFacts::gate, .not_run = true};
  GateResult profile{.gate = ProfileFacts::gate};
  profile.facts = profile_facts();
  run.gates = {environment, skipped, correctness, stopped, profile};
  Record record;
  record.kind = GateRecord::kind;
  record.body = run;
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  ASSERT_NE(again.as<GateRecord>(), nullptr);
  EXPECT_TRUE(*again.as<GateRecord>() == run);
}

TEST(RecordJson, TheNoiseOfAMachineSurvives) {
  const GateRate slow{.speed = 0.9, .needed = 1, .holds = 1, .fails = 8, .undecided = 2, .problem = "why"};
  EXPECT_EQ(slow.wrong(), 1) << "it holds though it is too slow";
  EXPECT_EQ((GateRate{.speed = 1.1, .needed = 1, .holds = 7, .fails = 3}.wrong()), 3);
  const NoiseResult noise{
      .equal_builds = {{.kernel = "k", .workloads = {{"z", {.pairs = 4, .mean = 0.1, .blocks = 20}}, {"a", {}}}}},
      .gate_rates = {slow}};
  Record record;
  record.kind = SelftestRecord::kind;
  record.body = SelftestRecord{.noise = noise};
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  ASSERT_NE(again.as<SelftestRecord>(), nullptr);
  EXPECT_EQ(again.as<SelftestRecord>()->noise, noise);
}

TEST(RecordJson, BytesThatAreNoTextCostNothing) {
  Record record;
  record.body = GateRecord{.summary = "\xff\xfe not UTF-8"};
  record.seconds = std::nan("");
  const Record again = record_from(Json::parse(one_line(complete_json(record))));
  EXPECT_EQ(again.seconds, 0);
}

TEST(RecordJson, WhatSomebodyBrokeIsReadAsFarAsItGoes) {
  for (
      const char* text :
      {"{}", "[]", "null", R"({"kind":5,"gain":"x","gates":{"a":1},"cost":[1],"base":7,"run":{}})",
       R"({"kind":"gate","gates":[1,"x",null,{"gate":"build","data":7,"findings":[3]}],"baselines":{"t":1},"run":"r"})",
       R"({"kind":"compare","gain":{"mean":"much"},"run":"r","cost":{"machine":"x"},"seed":-1,"samples":[{}]})",
       R"({"kind":"reproduce","differs":[1,{"key":"k","a":[1],"b":{}}]})", R"({"kind":"selftest","power":"no"})"}) {
    const Record record = record_from(Json::parse(text));
    EXPECT_FALSE(list_line(record).empty()) << text;
    EXPECT_FALSE(side_by_side_text(side_by_side(record, Record{})).empty()) << text;
  }
}

TEST(RecordJson, AKindOfTheFutureKeepsItsLine) {
  const std::string line = R"({"version":1,"id":"x","kind":"dream","summary":"s","more":[1,2]})";
  const Record record = record_from(Json::parse(line));
  EXPECT_EQ(record.line, line);
  EXPECT_EQ(detail_of(record), "s");
}

}  // namespace
}  // namespace flashmoe::workflow
