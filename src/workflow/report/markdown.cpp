// The summary of a run as Markdown.
#include <fmt/format.h>

#include "workflow/journal/listing.hpp"
#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {
namespace {

// A cell of a Markdown table.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::string changes_markdown(const std::vector<ChangeSummary>& changes) {
  if (changes.empty()) return "No comparison in this run.\n";
  std::string text = "| change | verdict | effect (measured) | pairs | workload | seconds | record |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const ChangeSummary& change : changes) {
    text += fmt::format("| {} | {} | {} | {} | {} | {:.0f} | {} |\n", escaped(change.change), change.verdict,
                        change.gain ? gain_text(*change.gain) : "not measured", change.pairs,
                        escaped(change.workload.value_or("")), change.seconds, change.id);
  }
  return text;
}

std::string speeds_markdown(const RunSummary& summary) {
  std::string text;
  if (summary.after.empty()) {
    text = "No gate run of this run measured a speed.\n";
  } else {
    text = "| workload | before | after | lower bound |\n| --- | --- | --- | --- |\n";
    for (const auto& [workload, speed] : summary.after) {
      const Speed* earlier = find_named(summary.before, workload);
      text +=
          fmt::format("| {} | {} | {:.3f}x | {:.3f}x |\n", escaped(workload),
                      earlier != nullptr ? fmt::format("{:.3f}x", earlier->speedup) : "-", speed.speedup, speed.lower);
    }
    text += "\nSpeed against the project's baseline, measured.\n";
  }
  return text + fmt::format("\nKept changes together: {}.\n", gain_text(std::optional(summary.kept_gain)));
}

std::string time_markdown(const RunSummary& summary) {
  std::string text = fmt::format("{:.1f} min", summary.seconds / 60);
  if (summary.planned_minutes) text += fmt::format(" of {:.0f} min planned", *summary.planned_minutes);
  text += fmt::format("; {} comparisons", summary.changes.size());
  if (summary.planned_iterations) text += fmt::format(" of {} iterations planned", *summary.planned_iterations);
  return text + fmt::format(". ${:.4f}: machine ${:.4f}, agent ${:.4f}.\n", summary.cost.total, summary.cost.machine,
                            summary.cost.agent);
}

}  // namespace

std::string markdown_of(const RunSummary& summary) {
  std::string text = fmt::format("# Run {} of {}\n\n", summary.run, summary.project);
  text += fmt::format("Device {}, {} records from {} to {}", summary.device, summary.records,
                      summary.first.substr(0, 19), summary.last.substr(0, 19));
  if (summary.environment && summary.environment->cpu) text += ", on " + *summary.environment->cpu;
  text += ".\n\n## Before and after\n\n" + speeds_markdown(summary);
  text += "\n## Changes\n\n" + changes_markdown(summary.changes);
  text += "\n## Gates\n\n";
  if (summary.gates.empty()) text += "No gate run in this run.\n";
  for (const GateSummary& gate : summary.gates) {
    text += fmt::format("- {} {}: {} ({:.0f} s)\n", gate.id, gate.verdict, gate.what, gate.seconds);
  }
  text += "\n## Time and cost\n\n" + time_markdown(summary);
  if (!summary.machine_advice.empty()) text += summary.machine_advice + "\n";
  text += "\n## Next goals\n\n";
  if (summary.next_goals.empty()) text += "Nothing is open.\n";
  for (const std::string& goal : summary.next_goals) text += "- " + goal + "\n";
  return text;
}

}  // namespace flashmoe::workflow
