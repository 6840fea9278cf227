// The summary of a run as Markdown.
#include <fmt/format.h>

#include "support/text.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {
namespace {

// A cell of a Markdown table.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : printable(text)) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string changes_markdown(const std::vector<ChangeSummary>& changes) {
  if (changes.empty()) return "No comparison in this run.\n";
  std::string text = "| change | verdict | effect | evidence | pairs | workload | seconds | record |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const ChangeSummary& change : changes) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {:.0f} | {} |\n", escaped(change.change),
                        escaped(change.verdict), change.gain ? gain_text(*change.gain) : "not measured",
                        change.gain ? escaped(change.evidence) : "-", change.pairs,
                        escaped(change.workload.value_or("")), change.seconds, change.id);
  }
  return text;
}

std::string speeds_markdown(const RunSummary& summary) {
  std::string text;
  if (summary.after.empty()) {
    text = "No gate run of this run measured a speed.\n";
  } else {
    text = "| workload | before | after | lower bound | evidence |\n| --- | --- | --- | --- | --- |\n";
    for (const auto& [workload, speed] : summary.after) {
      const Speed* earlier = find_named(summary.before, workload);
      text += fmt::format("| {} | {} | {:.3f}x | {:.3f}x | {} |\n", escaped(workload),
                          earlier != nullptr ? fmt::format("{:.3f}x", earlier->speedup) : "-", speed.speedup,
                          speed.lower, escaped(speed.evidence));
    }
    text += "\nSpeed against the project's baseline.\n";
  }
  for (const KeptGain& kept : summary.kept) {
    text += fmt::format(
        "\nKept changes together: {} on {} ({}, {}).\n", gain_text(std::optional(kept.gain)), escaped(kept.workload),
        kept.changes == 1 ? "1 change" : fmt::format("{} changes", kept.changes), escaped(kept.evidence));
  }
  return text;
}

std::string time_markdown(const RunSummary& summary) {
  std::string text = fmt::format("{:.1f} min", summary.seconds / 60);
  if (summary.planned_minutes) text += fmt::format(" of {:.0f} min planned", *summary.planned_minutes);
  text += fmt::format(" from the first to the last record, cudadent ran {:.1f} min of it; {} comparisons",
                      summary.busy_seconds / 60, summary.changes.size());
  if (summary.planned_iterations) text += fmt::format(" of {} iterations planned", *summary.planned_iterations);
  return text + fmt::format(". ${:.4f}: machine ${:.4f}, agent ${:.4f}.\n", summary.cost.total, summary.cost.machine,
                            summary.cost.agent);
}

}  // namespace

std::string markdown_of(const RunSummary& summary) {
  std::string text = fmt::format("# Run {} of {}\n\n", escaped(summary.run), escaped(summary.project));
  text += fmt::format("Device {}, {} records from {} to {}", escaped(summary.device), summary.records,
                      escaped(summary.first.substr(0, 19)), escaped(summary.last.substr(0, 19)));
  if (summary.environment && summary.environment->cpu) text += ", on " + escaped(*summary.environment->cpu);
  if (summary.left_out > 0) {
    text += fmt::format(". {} records are left out: they are not as they were written (cudadent journal --check)",
                        summary.left_out);
  }
  text += ".\n\n## Before and after\n\n" + speeds_markdown(summary);
  text += "\n## Changes\n\n" + changes_markdown(summary.changes);
  text += "\n## Gates\n\n";
  if (summary.gates.empty()) text += "No gate run in this run.\n";
  for (const GateSummary& gate : summary.gates) {
    text += fmt::format("- {} {}: {} ({:.0f} s, {})\n", gate.id, escaped(gate.verdict), escaped(gate.what),
                        gate.seconds, escaped(gate.evidence));
  }
  text += "\n## Bottlenecks\n\n";
  if (summary.bottlenecks.empty()) text += "Nothing in the records tells.\n";
  for (const std::string& bottleneck : summary.bottlenecks) text += "- " + escaped(bottleneck) + "\n";
  text += "\n## Time and cost\n\n" + time_markdown(summary);
  if (!summary.machine_advice.empty()) text += summary.machine_advice + "\n";
  text += "\n## Next goals\n\n";
  if (summary.next_goals.empty()) text += "Nothing is open.\n";
  for (const std::string& goal : summary.next_goals) text += "- " + escaped(goal) + "\n";
  return text;
}

std::string runs_markdown(const std::vector<RunSummary>& runs) {
  if (runs.empty()) return "No runs.\n";
  std::string text = "| run | began | minutes | $ | comparisons | kept | together | speed at the end |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const RunSummary& run : runs) {
    int kept = 0;
    std::string together;
    for (const KeptGain& gain : run.kept) {
      kept += gain.changes;
      together += fmt::format("{}{} {} ({})", together.empty() ? "" : "; ", gain_text(std::optional(gain.gain)),
                              gain.workload, gain.evidence);
    }
    std::string speeds;
    for (const auto& [workload, speed] : run.after) {
      speeds += fmt::format("{}{:.3f}x {} ({})", speeds.empty() ? "" : "; ", speed.speedup, workload, speed.evidence);
    }
    text += fmt::format("| {} | {} | {:.1f} | {:.4f} | {} | {} | {} | {} |\n", escaped(run.run),
                        escaped(run.first.substr(0, 19)), run.seconds / 60, run.cost.total, run.changes.size(), kept,
                        together.empty() ? "-" : escaped(together), speeds.empty() ? "-" : escaped(speeds));
  }
  return text;
}

}  // namespace flashmoe::workflow
