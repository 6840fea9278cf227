#include "workflow/compare/counters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "workflow/device/capabilities.hpp"
#include "workflow/gates/correctness.hpp"
#include "workflow/gpu/counters.hpp"
#include "workflow/gpu/launches.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/predict/prediction.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/statistics/sequential.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {

bool CounterComparison::moved() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const CounterChange& change) { return movement_of(change) != Movement::none; });
}

std::string CounterComparison::word() const {
  if (correctness.outcome == Outcome::fails) return name_of(Decision::revert);
  if (correctness.outcome != Outcome::holds) return name_of(Decision::inconclusive);
  if (!moved()) return counters_not_moved;
  return predicted ? predicted_word : counters_moved;
}

Outcome CounterComparison::outcome() const {
  if (correctness.outcome != Outcome::holds) return correctness.outcome;
  return moved() && !predicted ? Outcome::holds : Outcome::inconclusive;
}

std::string CounterComparison::code() const {
  if (correctness.outcome == Outcome::fails) return codes::compare_candidate_failed;
  if (correctness.outcome != Outcome::holds) return correctness.code;
  if (!moved()) return codes::compare_counters_not_moved;
  return predicted ? codes::compare_predicted : "";
}

namespace {

// What both take, from the same inputs. Where the model abstains there is a reason, and no gain.
void predict_both(const Version& base, const Version& candidate, const CountersRequest& request, Progress& progress,
                  CounterComparison& comparison) {
  const PredictionRequest one{.device = request.device.to_string(), .workload = request.workload, .seed = request.seed};
  progress.step("prediction", 4);
  Progress silent(prediction_steps, true);
  PredictedGain gain{.needed = std::max(request.least_gain, least_believed_gain)};
  for (const auto& [version, cycles, limiter] :
       {std::tuple{&base, &gain.base_cycles, &gain.base_limiter},
        std::tuple{&candidate, &gain.candidate_cycles, &gain.candidate_limiter}}) {
    const auto run = predict_project(version->project, one, silent);
    if (!run || !run->is_predicted()) {
      comparison.not_predicted = version->name + ": " + (run ? prediction_summary(*run) : run.error().message);
      return;
    }
    *cycles = run->cycles();
    *limiter = run->longest()->prediction.limiter;
    for (const LaunchPrediction& launch : run->launches) {
      for (const std::string& doubt : launch.prediction.doubts) {
        if (std::find(gain.doubts.begin(), gain.doubts.end(), doubt) == gain.doubts.end()) gain.doubts.push_back(doubt);
      }
    }
  }
  comparison.predicted = std::move(gain);
}

}  // namespace

Result<CounterComparison> compare_counters(const Version& base, const Version& candidate,
                                           const CountersRequest& request, Progress& progress) {
  const auto& [device, workload, seed, least_gain] = request;
  CounterComparison comparison;
  progress.step("correctness of the candidate", 20);
  const ReportFile report;
  const auto kernel =
      gpu_runnable(candidate.project, device, {.report = report.path(), .seed = mix_seed(seed, 3)}, progress);
  if (!kernel) return kernel.error();
  // The base's reference, workloads and tolerances: a candidate is not judged by rules of its own.
  const auto reference = make_runnable(base.project, base.project.reference, "reference", "reference", {});
  if (!reference) return reference.error();
  comparison.candidate_hash = kernel->content_hash;
  comparison.correctness = run_correctness_gate(judge_of(base.project, candidate.project), *kernel, *reference,
                                                {.seed = mix_seed(seed, 0xC0),
                                                 .repeat_with = seed,
                                                 .schedules = capabilities_of(device).schedules,
                                                 .report = report.path()},
                                                progress);
  if (candidate.worktree) {
    GateResult& gate = comparison.correctness;
    gate.summary = candidate.worktree->outlasting(gate.summary);
    for (Finding& finding : gate.findings) {
      finding.what = candidate.worktree->outlasting(finding.what);
      finding.where = candidate.worktree->outlasting(finding.where);
    }
  }
  if (comparison.correctness.outcome != Outcome::holds) return comparison;

  const ProfileOptions options{.device = device.to_string(), .workload = workload, .seed = seed};
  auto base_counts = run_profile(base.project, options, progress);
  if (!base_counts) return base_counts.error();
  auto candidate_counts = run_profile(candidate.project, options, progress);
  if (!candidate_counts) return candidate_counts.error();
  comparison.base = std::move(*base_counts);
  comparison.candidate = std::move(*candidate_counts);
  comparison.base_hash = comparison.base.image_hash;
  comparison.changes = counter_changes(comparison.base, comparison.candidate);
  predict_both(base, candidate, request, progress, comparison);
  return comparison;
}

std::string counters_text(const CounterComparison& comparison) {
  std::string text = fmt::format("  {:<11} {}: {}\n", "correctness", name_of(comparison.correctness.outcome),
                                 comparison.correctness.summary);
  if (comparison.changes.empty()) return text;
  text += fmt::format("  {:<34} {:>16} {:>16}  {}\n", "counter, of one call", "base", "candidate", "change");
  for (const CounterChange& change : comparison.changes) {
    const Counter* counter = find_counter(change.name);
    const Movement movement = movement_of(change);
    const char* judged = movement == Movement::none ? "" : movement == Movement::better ? "  better" : "  worse";
    text +=
        fmt::format("  {:<34} {:>16.0f} {:>16.0f}  {}{}\n", counter != nullptr ? counter->about : change.name.c_str(),
                    change.from, change.to, change_text(change), judged);
  }
  if (comparison.predicted) {
    const PredictedGain& gain = *comparison.predicted;
    text += fmt::format("  {:<11} {}\n", "predicted", text_of(gain));
    text += fmt::format("  {:<11} {}; before: {}\n", "limited by", gain.candidate_limiter, gain.base_limiter);
    for (const std::string& doubt : gain.doubts) text += fmt::format("  {:<11} {}\n", "doubt", doubt);
  } else {
    text += fmt::format("  {:<11} {}\n", "no time", comparison.not_predicted);
  }
  return text;
}

}  // namespace flashmoe::workflow
