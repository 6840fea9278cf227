#include "workflow/optimize/candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <thread>

#include "support/process.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/predict/prediction.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double seconds_a_candidate = 8;                    // nvcc, mostly
constexpr double seconds_a_workload = 10;                    // of timing, elsewhere
constexpr double least_elsewhere = 1 / worse_elsewhere - 1;  // a loss that is worth a word

Counted count(const Counting& counting, const Version& version, const std::string& workload) {
  Progress silent(profile_steps, true);
  const auto profile = run_profile(
      version.project, {.device = counting.device.to_string(), .workload = workload, .seed = counting.seed}, silent);
  if (!profile || !profile->findings.empty()) return {};
  const auto cycles = least_cycles(*profile, counting.rules);
  if (!cycles) return {};
  return {.cycles = *cycles,
          .predicted = predicted_cycles(counting, version.project, workload),
          .counters = weightiest_counters(*profile)};
}

std::optional<double> counted_factor(const Counting& counting, const Version& start, const Version& end,
                                     const std::string& workload) {
  const Counted before = count(counting, start, workload), after = count(counting, end, workload);
  if (before.cycles <= 0 || after.cycles <= 0) return std::nullopt;
  return factor(before, after);
}

std::optional<double> timed_factor(const Counting& counting, const std::string& run, const std::string& start,
                                   const std::string& end, const std::string& workload) {
  Progress silent(compare_steps, true);
  const auto compared = run_compare({.project = counting.project.directory,
                                     .base = start,
                                     .candidate = end,
                                     .device = counting.device.to_string(),
                                     .workload = workload,
                                     .phase = "tuning",
                                     .min_gain = least_elsewhere,
                                     .run = run + "-elsewhere",
                                     .note = "elsewhere",
                                     .limit_seconds = seconds_a_workload},
                                    silent);
  if (!compared) return std::nullopt;
  const auto& gain = std::get<CompareRecord>(compared->record.body).gain;
  if (!gain || !gain->mean) return std::nullopt;
  return 1 / (1 + *gain->mean);
}

}  // namespace

double factor(const Counted& before, const Counted& after) {
  if (before.predicted && after.predicted) return *after.predicted / *before.predicted;
  return after.cycles / before.cycles;
}

std::optional<double> predicted_cycles(const Counting& counting, const Project& project, const std::string& workload) {
  Progress silent(prediction_steps, true);
  const auto run = predict_project(
      project, {.device = counting.device.to_string(), .workload = workload, .seed = counting.seed}, silent);
  if (!run || !run->is_predicted()) return std::nullopt;
  return run->cycles();
}

void count_candidates(const Counting& counting, const std::vector<Candidate>& candidates, CountedVersions& counted) {
  std::vector<const Candidate*> open;
  for (const Candidate& candidate : candidates) {
    if (!counted.contains(candidate.change.commit)) open.push_back(&candidate);
  }
  if (open.empty()) return;
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  Progress progress(1, counting.quiet);
  progress.step(fmt::format("{} candidates", open.size()),
                seconds_a_candidate * static_cast<double>(open.size()) / static_cast<double>(cores));
  for (std::size_t begin = 0; begin < open.size() && !interrupted(); begin += cores) {
    const std::size_t end = std::min(begin + cores, open.size());
    progress.update(fmt::format("{}/{} {}", begin, open.size(), open[begin]->proposal.hypothesis),
                    static_cast<double>(begin) / static_cast<double>(open.size()));
    std::vector<Version> versions;  // git makes worktrees one after the other
    for (std::size_t i = begin; i < end; ++i) {
      auto version = resolve_version(counting.project, open[i]->change.commit);
      versions.push_back(version ? std::move(*version) : Version{});
    }
    std::vector<std::future<Counted>> running;
    running.reserve(versions.size());
    for (const Version& version : versions)
      running.push_back(std::async(std::launch::async, count, std::cref(counting), std::cref(version), ""));
    for (std::size_t i = begin; i < end; ++i) counted[open[i]->change.commit] = running[i - begin].get();
  }
}

std::vector<Elsewhere> look_elsewhere(const Counting& counting, const std::string& run, const std::string& start,
                                      const std::string& end) {
  const auto base = resolve_version(counting.project, start);
  const auto candidate = resolve_version(counting.project, end);
  const Workload* target = target_workload(counting.project);
  std::vector<Elsewhere> found;
  if (!base || !candidate) return found;
  Progress progress(1, counting.quiet);
  progress.step("other workloads", 2 * seconds_a_candidate);
  for (const Workload& workload : counting.project.workloads) {
    if ((target != nullptr && workload.name == target->name) || interrupted()) continue;
    progress.update(workload.name);
    const auto factor = has_clock(counting.device) ? timed_factor(counting, run, start, end, workload.name)
                                                   : counted_factor(counting, *base, *candidate, workload.name);
    if (factor) found.push_back({.workload = workload.name, .factor = *factor});
  }
  return found;
}

}  // namespace flashmoe::workflow
