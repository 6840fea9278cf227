// Traces of another bench: what is told fits its schema, and what it tells claims nothing here.
#include "workflow/journal/flashinfer_trace.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "support/json_text.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/records_for_test.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Record timed_run(const std::string& evidence) {
  Record record = gate_record("0123456789ab", 2.0, Outcome::holds);
  auto& run = std::get<GateRecord>(record.body);
  auto& performance = std::get<PerformanceFacts>(run.gates[1].facts);
  performance.baseline = "torch";
  performance.workloads[0].second.values = {{"n", 4096}};
  performance.workloads[0].second.speed->kernel_seconds = 1e-5;
  performance.workloads[0].second.speed->baseline_seconds = 2e-5;
  GateResult correctness{.gate = CorrectnessFacts::gate, .outcome = Outcome::holds};
  correctness.facts = CorrectnessFacts{.cases = {{.name = "target", .max_diff = 1e-6}}};
  run.gates.insert(run.gates.begin() + 1, correctness);
  record.evidence = Evidence{.kind = evidence, .where = "cpu: Xeon, host"};
  return record;
}

TEST(FlashinferTrace, ATimedRunIsOneTraceAWorkload) {
  const ExportedTraces exported = export_traces({timed_run(measured_evidence)}, {"a", "b"});
  ASSERT_EQ(exported.lines.size(), 1U);
  const Json trace = parse_json(exported.lines[0]);
  EXPECT_EQ(trace["definition"], "softmax");
  EXPECT_EQ(trace["solution"], "softmax@0123456789ab");
  EXPECT_EQ(trace["workload"]["axes"]["n"], 4096);
  EXPECT_EQ(trace["workload"]["inputs"]["b"]["type"], "random");
  EXPECT_EQ(trace["evaluation"]["status"], "PASSED");
  EXPECT_DOUBLE_EQ(trace["evaluation"]["performance"]["latency_ms"], 0.01);
  EXPECT_DOUBLE_EQ(trace["evaluation"]["performance"]["reference_latency_ms"], 0.02);
  EXPECT_DOUBLE_EQ(trace["evaluation"]["correctness"]["max_absolute_error"], 1e-6);
  EXPECT_EQ(trace["evaluation"]["environment"]["hardware"], "cpu: Xeon, host");
}

// No figure that nobody measured leaves as a latency.
TEST(FlashinferTrace, WhatWasNotMeasuredIsLeftOut) {
  for (const char* kind : {virtual_evidence, predicted_evidence, rehearsal_evidence, no_evidence}) {
    const ExportedTraces exported = export_traces({timed_run(kind)}, {});
    EXPECT_TRUE(exported.lines.empty()) << kind;
    EXPECT_EQ(exported.not_told, 1U) << kind;
  }
  Record changed = timed_run(measured_evidence);
  changed.standing = Standing::changed;
  EXPECT_TRUE(export_traces({changed}, {}).lines.empty());
}

TEST(FlashinferTrace, WhatDoesNotHoldHasItsStatusAndItsFigures) {
  Record record = timed_run(virtual_evidence);
  auto& run = std::get<GateRecord>(record.body);
  run.gates[1].facts = CorrectnessFacts{.failure = "wrong", .wrong = WrongFacts{.values = {{"n", 8}}, .max_diff = 3}};
  Json trace = parse_json(export_traces({record}, {}).lines.at(0));
  EXPECT_EQ(trace["evaluation"]["status"], "INCORRECT_NUMERICAL");
  EXPECT_EQ(trace["evaluation"]["correctness"]["max_absolute_error"], 3);
  EXPECT_FALSE(trace["evaluation"].contains("performance"));
  run.gates[1].facts = CorrectnessFacts{.failure = "hung"};
  EXPECT_EQ(parse_json(export_traces({record}, {}).lines.at(0))["evaluation"]["status"], "TIMEOUT");
  run.gates[0].outcome = Outcome::fails;
  run.gates[1].not_run = true;
  trace = parse_json(export_traces({record}, {}).lines.at(0));
  EXPECT_EQ(trace["evaluation"]["status"], "COMPILE_ERROR");
  EXPECT_TRUE(record_of_trace(one_line(trace)));
}

TEST(FlashinferTrace, ExportedOnesComeBackAsTheyWent) {
  const std::string line = export_traces({timed_run(measured_evidence)}, {"a"}).lines.at(0);
  const auto imported = record_of_trace(line);
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->verdict, "PASSED");
  EXPECT_EQ(imported->evidence->kind, no_evidence);
  EXPECT_FALSE(known_good_of(*imported));
  EXPECT_EQ(export_traces({*imported}, {}).lines, std::vector<std::string>{line});
  EXPECT_NE(detail_of(*imported).find("0.01 ms, 2x its reference"), std::string::npos) << detail_of(*imported);
}

TEST(FlashinferTrace, WhatIsNoTraceIsRefused) {
  const std::string whole = export_traces({timed_run(measured_evidence)}, {"a"}).lines.at(0);
  const auto refused = [&](const std::function<void(Json&)>& spoil) {
    Json json = parse_json(whole);
    spoil(json);
    const auto record = record_of_trace(one_line(json));
    ASSERT_FALSE(record) << one_line(json);
    EXPECT_EQ(record.error().code, codes::usage_trace);
  };
  refused([](Json& trace) { trace.erase("definition"); });
  refused([](Json& trace) { trace["workload"] = 5; });
  refused([](Json& trace) { trace["workload"]["axes"]["n"] = -1; });
  refused([](Json& trace) { trace["workload"]["uuid"] = ""; });
  refused([](Json& trace) { trace.erase("solution"); });
  refused([](Json& trace) { trace["evaluation"]["status"] = "FAST"; });
  refused([](Json& trace) { trace["evaluation"].erase("performance"); });
  refused([](Json& trace) { trace["evaluation"]["status"] = "RUNTIME_ERROR"; });
  refused([](Json& trace) { trace["evaluation"]["environment"]["hardware"] = ""; });
  refused([](Json& trace) { trace = Json::array(); });
  for (const char* text : {"", "null", "{", "[1]"}) EXPECT_FALSE(record_of_trace(text)) << text;
}

}  // namespace
}  // namespace flashmoe::workflow
