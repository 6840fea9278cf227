// A loop for people: what was tried, why, and what came of it.
#include <fmt/format.h>

#include "workflow/optimize/optimize.hpp"
#include "workflow/verdict/evidence.hpp"

namespace flashmoe::workflow {

const char* verdict_of(const OptimizeReport& report) {
  if (report.waiting > 0) return "WAITING";
  return report.end == report.start ? "NOTHING KEPT" : "IMPROVED";
}

std::string optimize_text(const OptimizeReport& report) {
  std::string text = fmt::format("{} on {}\n", report.run, report.device);
  int kept = 0;
  for (const Iteration& iteration : report.iterations) {
    kept += iteration.advanced ? 1 : 0;
    text += fmt::format("  {:>2} {} {}\n       {}, {:.0f} s; {}\n", iteration.number, iteration.advanced ? "+" : "-",
                        iteration.hypothesis, iteration.verdict, iteration.seconds, iteration.ground);
  }
  if (report.iterations.empty()) text += "  nothing was tried\n";
  if (!report.bottlenecks.empty()) {
    text += "  bottlenecks: ";
    for (std::size_t i = 0; i < report.bottlenecks.size(); ++i)
      text += (i == 0 ? "" : "; then ") + report.bottlenecks[i];
    text += "\n";
  }
  if (report.cycles_at_start > 0 && report.cycles_at_end > 0) {
    text += fmt::format(
        "  busiest SM: {:.0f} -> {:.0f} instructions of warps, counted ({:.1f}x fewer); {:.4g} -> {:.4g} cycles at "
        "least, estimated from exact counts ({:.1f}x)\n",
        report.busiest_sm_at_start, report.busiest_sm_at_end, report.busiest_sm_at_start / report.busiest_sm_at_end,
        report.cycles_at_start, report.cycles_at_end, report.cycles_at_start / report.cycles_at_end);
  }
  if (report.predicted_at_start && report.predicted_at_end) {
    text += fmt::format("  predicted: {:.0f} -> {:.0f} cycles a call on {} ({:.1f}x); not measured on a card\n",
                        *report.predicted_at_start, *report.predicted_at_end, report.device,
                        *report.predicted_at_start / *report.predicted_at_end);
  }
  if (report.ratio_at_start && report.ratio_at_end) {
    text += fmt::format("  against {}: {:.2f}x -> {:.2f}x, {}\n", report.baseline, *report.ratio_at_start,
                        *report.ratio_at_end, text_of(evidence_on(report.device, "")));
  }
  for (const Elsewhere& other : report.elsewhere) {
    text += fmt::format("  elsewhere: {} takes {:.3g} of what it took{}\n", other.workload, other.factor,
                        other.factor > worse_elsewhere ? ": it LOSES there" : "");
  }
  text += fmt::format("  stopped: {}; {} of {} changes kept, {:.0f} s\n", report.stopped, kept,
                      report.iterations.size(), report.seconds);
  return text;
}

}  // namespace flashmoe::workflow
