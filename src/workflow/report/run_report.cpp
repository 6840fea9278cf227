#include "workflow/report/run_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "workflow/compare/git.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Result<std::string> run_named(const std::vector<Record>& records, const std::string& name) {
  if (!name.empty()) return find_run(records, name);
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (is_usable(*record)) return record->run;
  }
  return Diagnostic{.message = "the journal has no record to report on",
                    .fix = "cudadent gate, compare, try and optimize write them",
                    .code = codes::usage_run};
}

// Of the run; where it has none, the last on its device.
template <class Body>
std::optional<Record> last_record(const std::vector<Record>& records, const RunSummary& summary) {
  const Record* of_device = nullptr;
  const Record* of_run = nullptr;
  for (const Record& record : records) {
    if (record.as<Body>() == nullptr || !is_usable(record)) continue;
    if (record.run == summary.run) of_run = &record;
    if (record.device == summary.device) of_device = &record;
  }
  const Record* found = of_run != nullptr ? of_run : of_device;
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::vector<double> ratios_of(const std::vector<double>& log_ratios) {
  std::vector<double> ratios;
  ratios.reserve(log_ratios.size());
  for (const double one : log_ratios) ratios.push_back(std::exp(one));
  return ratios;
}

TimedBlocks blocks_of(const Record& record, std::string what) {
  return {.record = record.id,
          .what = std::move(what),
          .evidence = record.evidence ? text_of(*record.evidence) : "not recorded",
          .kind = record.evidence ? record.evidence->kind : no_evidence,
          .unit = "times as fast",
          .equal = 1};
}

void add_comparison(const Record& record, const CompareRecord& comparison, std::vector<TimedBlocks>& all) {
  if (comparison.samples.empty()) return;
  const std::string note = comparison.note.value_or("");
  TimedBlocks blocks = blocks_of(record, note.empty() ? "comparison" : note);
  const auto ratios = [](const std::vector<PairSample>& pairs) {
    std::vector<double> of_blocks;
    for (const PairSample& pair : pairs) {
      for (const double one : pair.block_log_ratios) of_blocks.push_back(std::exp(one));
      if (pair.block_log_ratios.empty()) of_blocks.push_back(std::exp(pair.log_ratio));
    }
    return of_blocks;
  };
  const std::vector<double> equal = ratios(comparison.calibration_samples);
  if (!equal.empty()) blocks.rows.push_back({fmt::format("equal builds, {} blocks", equal.size()), equal});
  const std::vector<double> change = ratios(comparison.samples);
  blocks.rows.push_back({fmt::format("base / candidate, {} blocks", change.size()), change});
  all.push_back(std::move(blocks));
}

void add_gates(const Record& record, const GateRecord& run, std::vector<TimedBlocks>& all) {
  for (const GateResult& gate : run.gates) {
    const auto* timed = std::get_if<PerformanceFacts>(&gate.facts);
    if (timed == nullptr) continue;
    TimedBlocks blocks = blocks_of(record, "gate run against " + timed->baseline);
    for (const auto& [workload, measured] : timed->workloads) {
      if (!measured.speed || measured.speed->log_ratios.empty()) continue;
      const std::vector<double> ratios = ratios_of(measured.speed->log_ratios);
      blocks.rows.push_back({fmt::format("{}, {} pairs of processes", workload, ratios.size()), ratios});
    }
    if (!blocks.rows.empty()) all.push_back(std::move(blocks));
  }
}

std::string repository_of(const Project& project) {
  const auto top = run_git(project.directory, {"rev-parse", "--show-toplevel"});
  return top ? *top : project.directory;
}

Result<PredictedVersion> predict_version(const Project& project, const std::string& device, const std::string& name,
                                         const std::string& label, Progress& progress) {
  const auto version = resolve_version(project, name);
  if (!version) return version.error();
  auto prediction = predict_project(version->project, {.device = device, .seed = 1}, progress);
  if (!prediction) return prediction.error();
  PredictedVersion predicted{.label = label, .commit = version->commit, .prediction = std::move(*prediction)};
  predicted.place = place_of(predicted.prediction, label);
  if (const LaunchPrediction* longest = predicted.prediction.longest())
    predicted.sources = annotated_sources(*longest, repository_of(version->project));
  return predicted;
}

// Where the run began and ended; where it was no loop, the project as it stands.
void predict_versions(const Project& project, RunReport& report, Progress& progress) {
  const RunSummary& summary = report.summary;
  std::vector<std::pair<std::string, std::string>> versions{{".", "as it stands"}};
  if (!summary.end.empty()) versions = {{summary.start, "start"}};
  if (summary.end != summary.start) versions.emplace_back(summary.end, "end");
  for (const auto& [name, label] : versions) {
    auto predicted = predict_version(project, summary.device, name, label, progress);
    if (!predicted) {
      report.not_predicted = fmt::format("{}: {}", label, predicted.error().message);
      continue;
    }
    const std::string sentence = fmt::format("{}: {} ({})", label, prediction_summary(predicted->prediction),
                                             text_of(predicted->prediction.evidence()));
    report.summary.bottlenecks.push_back(sentence);
    report.predicted.push_back(std::move(*predicted));
  }
}

std::string reason_not_to_predict(const std::optional<Project>& project, const RunSummary& summary,
                                  const ReportOptions& options) {
  if (!options.predict) return "left out on request (--no-predict)";
  if (!project) return "there is no project here to predict";
  if (!summary.device.starts_with("virtual:"))
    return "only what runs on a virtual GPU is predicted, and this ran on " + summary.device;
  return project->cuda_sources.empty() ? "the project has no CUDA sources" : "";
}

}  // namespace

std::vector<TimedBlocks> timed_blocks(const std::vector<Record>& records, const std::string& run) {
  std::vector<TimedBlocks> all;
  for (const Record& record : records) {
    if (record.run != run || !is_usable(record)) continue;
    if (const auto* comparison = record.as<CompareRecord>()) add_comparison(record, *comparison, all);
    if (const auto* gates = record.as<GateRecord>()) add_gates(record, *gates, all);
  }
  return all;
}

Result<RunReport> make_report(const std::vector<Record>& records, const std::optional<Project>& project,
                              const ReportOptions& options, Progress& progress) {
  const auto run = run_named(records, options.run);
  if (!run) return run.error();
  RunReport report{.summary = run_summary(records, *run, project), .made = utc_now()};
  report.summary.missing = options.missing;
  report.gate = last_record<GateRecord>(records, report.summary);
  report.profile = last_record<ProfileRecord>(records, report.summary);
  report.timed = timed_blocks(records, *run);
  if (project) report.ladder = project->thresholds.ladder;
  for (const Record& record : records) {
    if (record.run != *run) continue;
    if (!is_usable(record)) {
      report.refused_records.push_back(
          fmt::format("{} is {}: {}", record.id, name_of(record.standing), record.standing_why));
    } else if (record.as<GateRecord>() != nullptr) {
      report.gate_runs.push_back(record);
    }
  }
  report.not_predicted = reason_not_to_predict(project, report.summary, options);
  if (!report.not_predicted.empty()) return report;
  predict_versions(*project, report, progress);
  report.roofs = roofs_of(report.summary.device.substr(report.summary.device.find(':') + 1));
  return report;
}

}  // namespace flashmoe::workflow
