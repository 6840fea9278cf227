#include "workflow/gates/predicted.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "workflow/predict/prediction.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

GateResult undecided(const GateContext& context, const char* code, std::string summary) {
  GateResult result;
  result.gate = PerformanceFacts::gate;
  result.outcome = Outcome::inconclusive;
  result.code = code;
  result.summary = std::move(summary);
  result.findings.push_back({.severity = Severity::warning,
                             .group = result.gate,
                             .what = result.summary,
                             .fix = fmt::format("cudadent profile {} --device {} shows what it does there",
                                                context.project.directory, context.device.to_string()),
                             .code = result.code});
  return result;
}

std::vector<TensorSpec> judged_tensors(const Project& project) {
  std::vector<TensorSpec> tensors;
  std::copy_if(project.tensors.begin(), project.tensors.end(), std::back_inserter(tensors),
               [](const TensorSpec& one) { return one.role == TensorRole::input || one.role == TensorRole::output; });
  return tensors;
}

bool solves_the_same(const Project& project, const Project& other) {
  const auto ours = judged_tensors(project), theirs = judged_tensors(other);
  return std::equal(
      ours.begin(), ours.end(), theirs.begin(), theirs.end(), [](const TensorSpec& a, const TensorSpec& b) {
        return a.name == b.name && a.role == b.role && a.dtype == b.dtype && a.shape == b.shape && a.stride == b.stride;
      });
}

void add_doubts(const PredictionRun& run, std::vector<std::string>& doubts) {
  for (const LaunchPrediction& launch : run.launches)
    for (const std::string& doubt : launch.prediction.doubts)
      if (std::find(doubts.begin(), doubts.end(), doubt) == doubts.end()) doubts.push_back(doubt);
}

}  // namespace

Result<Project> rival_of(const Project& project) {
  const std::string directory =
      (std::filesystem::path(project.directory) / project.cuda_baseline).lexically_normal().string();
  auto baseline = load_project(directory);
  if (!baseline) return baseline;
  if (!solves_the_same(project, *baseline))
    return Diagnostic{.message = fmt::format("cuda.baseline: the inputs and outputs of {} are not those of {}",
                                             baseline->name, project.name),
                      .fix = "declare [inputs] and [outputs] alike in both",
                      .file = project.file,
                      .code = codes::baseline_failed};
  for (TensorSpec& tensor : baseline->tensors) {
    for (const TensorSpec& own : project.tensors) {
      if (own.name != tensor.name || tensor.role == TensorRole::scratch) continue;
      tensor.init = own.init;
      tensor.tolerance = own.tolerance;
    }
  }
  return baseline;
}

GateResult predicted_performance(const GateContext& context) {
  const Project& project = context.project;
  const std::string device = context.device.to_string();
  const PredictionRequest request{.device = device, .seed = mix_seed(context.seed, 2)};
  Progress silent(prediction_steps, true);
  const auto kernel = predict_project(project, request, silent);
  const std::string alone = kernel ? prediction_summary(*kernel) : "not predicted: " + kernel.error().message;
  const Workload* target = target_workload(project);
  if (project.cuda_baseline.empty() || target == nullptr || !kernel || !kernel->is_predicted())
    return undecided(context, codes::performance_not_timed,
                     fmt::format("not timed: {} is no device with a clock; {}", device, alone));

  auto baseline = rival_of(project);
  if (!baseline) return could_not_run(PerformanceFacts::gate, baseline.error());
  Workload workload = *target;
  for (const ParamSpec& param : baseline->params) workload.values.try_emplace(param.name, param.default_value);
  baseline->workloads = {std::move(workload)};
  baseline->thresholds.target_workload = target->name;
  PredictionRequest judged = request;  // a baseline that is wrong is easily beaten
  judged.reference = &context.reference;
  Progress silent_too(prediction_steps, true);
  const auto other = predict_project(*baseline, judged, silent_too);
  if (!other) {
    Diagnostic problem = other.error();
    problem.code = codes::baseline_failed;
    return could_not_run(PerformanceFacts::gate, problem);
  }
  if (!other->is_predicted())
    return undecided(
        context, codes::performance_not_timed,
        fmt::format("not timed; {}; the baseline {}: {}", alone, baseline->name, prediction_summary(*other)));
  PredictedSpeedFacts speed{.workload = target->name,
                            .baseline_sha256 = other->image_hash,
                            .kernel_sha256 = kernel->image_hash,
                            .baseline_cycles = other->cycles(),
                            .kernel_cycles = kernel->cycles(),
                            .ratio = other->cycles() / kernel->cycles()};
  add_doubts(*kernel, speed.doubts);
  add_doubts(*other, speed.doubts);
  GateResult result = undecided(
      context, codes::performance_predicted,
      fmt::format(
          "PREDICTED {:.2f}x of {} ({:.0f} against {:.0f} cycles of the SM clock, {}); nobody has measured it; {}",
          speed.ratio, baseline->name, speed.kernel_cycles, speed.baseline_cycles, target->name, alone));
  result.facts = PerformanceFacts{.seed = request.seed, .baseline = baseline->name, .predicted = std::move(speed)};
  return result;
}

}  // namespace flashmoe::workflow
