#include "workflow/optimize/stop.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "support/process.hpp"

namespace flashmoe::workflow {
namespace {

double dollars_of(const Project& project, double seconds) {
  return seconds / 3600 * (project.cost.machine_per_hour + project.cost.agent_per_hour);
}

// The expected gain is the advice's; where none speaks, the least that a change of the last phase is kept for.
std::string not_worth_it(const OptimizeRequest& request, const Project& project, const Progressed& progressed) {
  const std::vector<Iteration>& iterations = progressed.report.iterations;
  if (!request.dollars_a_per_cent || iterations.empty()) return "";
  double seconds = 0;
  for (const Iteration& iteration : iterations) seconds += iteration.seconds;
  const double costs = dollars_of(project, seconds) / static_cast<double>(iterations.size());
  const double gain = progressed.advice.empty() ? project.thresholds.least_gain.at("tuning")
                                                : std::max(0.0, progressed.advice.front().gain - 1);
  const double worth = 100 * gain * *request.dollars_a_per_cent;
  if (worth >= costs) return "";
  return fmt::format("the expected gain of {:.0f} % is worth ${:.2f}, the next iteration costs ${:.2f}", 100 * gain,
                     worth, costs);
}

}  // namespace

std::string reason_to_stop(const OptimizeRequest& request, const Project& project, const Progressed& progressed) {
  if (interrupted()) return "interrupted";
  const OptimizeReport& report = progressed.report;
  const double target = request.target.value_or(project.thresholds.ladder.back());
  if (progressed.ratio && *progressed.ratio >= target) {
    return fmt::format("the target is reached: {:.2f}x of {}, {}x was wanted", *progressed.ratio, report.baseline,
                       target);
  }
  const int most = request.max_iterations.value_or(project.thresholds.max_iterations);
  if (static_cast<int>(report.iterations.size()) >= most) return fmt::format("{} iterations", most);
  const double most_minutes = request.max_minutes.value_or(project.thresholds.max_minutes);
  if (progressed.seconds >= 60 * most_minutes) return fmt::format("{:.0f} minutes", most_minutes);
  const double dollars = dollars_of(project, progressed.seconds);
  if (request.max_dollars && dollars >= *request.max_dollars) return fmt::format("${:.2f} spent", dollars);
  return not_worth_it(request, project, progressed);
}

RunRecord run_record(const OptimizeReport& report, bool has_clock) {
  const auto kept = static_cast<int>(std::ranges::count_if(report.iterations, &Iteration::advanced));
  const auto counted = [has_clock](double instructions) {
    return has_clock ? std::nullopt : std::optional(instructions);
  };
  const auto iterations = static_cast<int>(report.iterations.size());
  return {.start = report.start,
          .end = report.end,
          .iterations = iterations,
          .kept = kept,
          .stopped = report.stopped,
          .bottlenecks = report.bottlenecks,
          .busiest_sm_at_start = counted(report.busiest_sm_at_start),
          .busiest_sm_at_end = counted(report.busiest_sm_at_end),
          .baseline = report.baseline,
          .ratio_at_start = report.ratio_at_start,
          .ratio_at_end = report.ratio_at_end,
          .summary = fmt::format("{} of {} changes kept; stopped: {}", kept, iterations, report.stopped)};
}

}  // namespace flashmoe::workflow
