#include "workflow/journal/flashinfer_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/text.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr const char* passed = "PASSED";
constexpr const char* incorrect = "INCORRECT_NUMERICAL";
constexpr std::array<std::string_view, 7> statuses = {
    passed, incorrect, "INCORRECT_SHAPE", "INCORRECT_DTYPE", "RUNTIME_ERROR", "COMPILE_ERROR", "TIMEOUT"};

// ---- export -------------------------------------------------------------------------------------------------------

// The same workload of the same project has the same name everywhere.
std::string uuid_of(const std::string& definition, const Json& axes) {
  const std::string hex = sha256_hex(definition + " " + one_line(axes));
  return fmt::format("{}-{}-8{}-8{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 3), hex.substr(15, 3),
                     hex.substr(18, 12));
}

Json workload_json(const Record& record, const std::map<std::string, double>& values,
                   const std::vector<std::string>& inputs) {
  Json axes = Json::object(), random = Json::object();
  for (const auto& [name, value] : values) {
    if (value >= 0 && value == std::floor(value)) axes[name] = static_cast<std::uint64_t>(value);
  }
  for (const std::string& input : inputs) random[input] = {{"type", "random"}};
  Json json = {{"uuid", uuid_of(record.project, axes)}};
  json["axes"] = std::move(axes);
  json["inputs"] = std::move(random);
  return json;
}

Json environment_json(const Record& record) {
  Json libraries = {{"cudadent_record", record.id}};
  if (record.environment && record.environment->compilers.cxx) libraries["c++"] = *record.environment->compilers.cxx;
  const std::string where = record.evidence ? record.evidence->where : "";
  return {{"hardware", where.empty() ? record.device : where}, {"libs", std::move(libraries)}};
}

std::string solution_of(const Record& record) {
  return fmt::format("{}@{}{}", record.project, record.commit.value_or("none").substr(0, 12),
                     record.dirty.value_or(false) ? "+" : "");
}

Json trace_json(const Record& record, Json workload, const char* status, const std::string& log) {
  return {{"definition", record.project},
          {"workload", std::move(workload)},
          {"solution", solution_of(record)},
          {"evaluation",
           {{"status", status}, {"environment", environment_json(record)}, {"timestamp", record.time}, {"log", log}}}};
}

// A largest relative error is not on record: that is no zero.
Json correctness_json(double max_diff) {
  return {{"max_relative_error", "NaN"},
          {"max_absolute_error", std::isfinite(max_diff) ? Json(max_diff) : Json("NaN")}};
}

template <class Facts>
const Facts* facts_in(const GateRecord& run) {
  for (const GateResult& gate : run.gates) {
    const auto* facts = std::get_if<Facts>(&gate.facts);
    if (facts != nullptr && !gate.not_run && gate.stopped.empty()) return facts;
  }
  return nullptr;
}

double max_diff_at(const CorrectnessFacts* correctness, const std::string& workload) {
  double most = std::nan("");
  if (correctness == nullptr) return most;
  for (const CaseFacts& one : correctness->cases) {
    if (one.name == workload) most = one.max_diff;
  }
  return most;
}

std::optional<Json> failed_build(const Record& record, const GateRecord& run, const std::vector<std::string>& inputs) {
  for (const GateResult& gate : run.gates) {
    if (gate.gate == BuildFacts::gate && !gate.not_run && gate.outcome == Outcome::fails)
      return trace_json(record, workload_json(record, {}, inputs), "COMPILE_ERROR", gate.summary);
  }
  return std::nullopt;
}

std::optional<Json> wrong_result(const Record& record, const GateRecord& run, const std::vector<std::string>& inputs) {
  const auto* correctness = facts_in<CorrectnessFacts>(run);
  if (correctness == nullptr || correctness->failure.empty()) return std::nullopt;
  if (correctness->wrong) {
    Json trace = trace_json(record, workload_json(record, correctness->wrong->values, inputs), incorrect, run.summary);
    trace["evaluation"]["correctness"] = correctness_json(correctness->wrong->max_diff);
    return trace;
  }
  const bool hung = correctness->failure == "hung";
  return trace_json(record, workload_json(record, {}, inputs), hung ? "TIMEOUT" : "RUNTIME_ERROR", run.summary);
}

std::vector<Json> timed(const Record& record, const GateRecord& run, const std::vector<std::string>& inputs) {
  std::vector<Json> traces;
  const auto* performance = facts_in<PerformanceFacts>(run);
  const bool measured = record.evidence && record.evidence->kind == measured_evidence;
  if (performance == nullptr || !measured || !performance->failure.empty()) return traces;
  for (const auto& [name, workload] : performance->workloads) {
    if (!workload.speed) continue;
    const SpeedFacts& speed = *workload.speed;
    Json trace = trace_json(record, workload_json(record, workload.values, inputs), passed,
                            fmt::format("reference: {}; ratio {:.4g} [{:.4g}, {:.4g}]", performance->baseline,
                                        speed.ratio.mean, speed.ratio.lower, speed.ratio.upper));
    trace["evaluation"]["correctness"] = correctness_json(max_diff_at(facts_in<CorrectnessFacts>(run), name));
    trace["evaluation"]["performance"] = {{"latency_ms", 1e3 * speed.kernel_seconds},
                                          {"reference_latency_ms", 1e3 * speed.baseline_seconds},
                                          {"speedup_factor", speed.ratio.mean}};
    traces.push_back(std::move(trace));
  }
  return traces;
}

// ---- import -------------------------------------------------------------------------------------------------------

Diagnostic not_a_trace(const std::string& why) {
  return {.message = "no Trace: " + why,
          .fix = std::string("one JSON object a line, as ") + flashinfer_trace_schema + " has it",
          .code = codes::usage_trace};
}

bool is_number_or_nan(const Json* value) {
  return value != nullptr && (value->is_number() || value->is_string());
}

std::string objection_to_workload(const Json& workload) {
  if (text_in(workload, "uuid").empty()) return "workload.uuid is empty";
  const Json* axes = field_in(workload, "axes");
  if (axes == nullptr || !axes->is_object()) return "workload.axes is no object";
  const Json* inputs = field_in(workload, "inputs");
  if (inputs == nullptr || !inputs->is_object()) return "workload.inputs is no object";
  const bool counts =
      std::all_of(axes->begin(), axes->end(), [](const Json& axis) { return axis.is_number_unsigned(); });
  return counts ? "" : "an axis is no whole number from 0";
}

// Which figures belong to which status is the schema's own rule.
std::string objection_to_evaluation(const Json& evaluation) {
  const std::string status = text_in(evaluation, "status");
  if (std::ranges::find(statuses, status) == statuses.end()) return "evaluation.status is '" + status + "'";
  if (text_in(evaluation, "timestamp").empty()) return "evaluation.timestamp is empty";
  const Json* environment = field_in(evaluation, "environment");
  if (environment == nullptr || text_in(*environment, "hardware").empty()) return "environment.hardware is empty";
  const auto has = [&](const char* key) {
    const Json* found = field_in(evaluation, key);
    return found != nullptr && !found->is_null();
  };
  if (has("correctness") != (status == passed || status == incorrect)) return "correctness does not fit " + status;
  if (has("performance") != (status == passed)) return "performance does not fit " + status;
  if (status == passed && !is_number_or_nan(field_in(*field_in(evaluation, "performance"), "latency_ms")))
    return "performance.latency_ms is no number";
  return "";
}

std::string objection_to(const Json& trace) {
  if (!trace.is_object()) return "no JSON object";
  if (text_in(trace, "definition").empty()) return "definition is empty";
  const Json* workload = field_in(trace, "workload");
  if (workload == nullptr) return "there is no workload";
  if (std::string why = objection_to_workload(*workload); !why.empty()) return why;
  const Json* evaluation = field_in(trace, "evaluation");
  const bool evaluated = evaluation != nullptr && !evaluation->is_null();
  if (evaluated != !text_in(trace, "solution").empty()) return "solution and evaluation come together or not at all";
  return evaluated ? objection_to_evaluation(*evaluation) : "";
}

std::string summary_of(const TraceRecord& trace, const Json* evaluation) {
  if (trace.solution.empty()) return "a workload of " + trace.definition;
  const Json* performance = evaluation == nullptr ? nullptr : field_in(*evaluation, "performance");
  const std::string speed =
      performance == nullptr || performance->is_null()
          ? ""
          : fmt::format(", {:.4g} ms, {:.3g}x its reference", number_in(*performance, "latency_ms"),
                        number_in(*performance, "speedup_factor"));
  return fmt::format("imported: {} of {} on {}{}", trace.solution, trace.definition, trace.hardware, speed);
}

}  // namespace

ExportedTraces export_traces(const std::vector<Record>& records, const std::vector<std::string>& inputs) {
  ExportedTraces exported;
  for (const Record& record : records) {
    if (!is_usable(record)) continue;
    if (const auto* trace = record.as<TraceRecord>()) exported.lines.push_back(trace->trace);
    const auto* run = record.as<GateRecord>();
    if (run == nullptr) continue;
    std::vector<Json> traces = timed(record, *run, inputs);
    if (auto failed = failed_build(record, *run, inputs)) traces.push_back(std::move(*failed));
    if (auto wrong = wrong_result(record, *run, inputs)) traces.push_back(std::move(*wrong));
    if (traces.empty()) ++exported.not_told;
    for (const Json& trace : traces) exported.lines.push_back(one_line(trace));
  }
  return exported;
}

Result<Record> record_of_trace(const std::string& line) {
  const Json json = bounded_json(line);
  if (const std::string why = objection_to(json); !why.empty()) return not_a_trace(why);
  const Json* evaluation = field_in(json, "evaluation");
  const bool evaluated = evaluation != nullptr && !evaluation->is_null();
  TraceRecord trace{.format = flashinfer_trace_schema,
                    .definition = text_in(json, "definition"),
                    .solution = text_in(json, "solution"),
                    .hardware = evaluated ? text_in(*field_in(*evaluation, "environment"), "hardware") : "",
                    .trace = line};
  trace.summary = summary_of(trace, evaluated ? evaluation : nullptr);
  Record record;
  record.commit = "";
  record.dirty = false;
  record.device = "imported";
  record.verdict = evaluated ? text_in(*evaluation, "status") : "none";
  record.evidence = Evidence{.kind = no_evidence, .where = trace.hardware};
  record.body = std::move(trace);
  return record;
}

}  // namespace flashmoe::workflow
