// The summary of a run as Markdown.
#include <fmt/format.h>

#include "workflow/journal/listing.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/report/summary.hpp"

namespace flashmoe::workflow {
namespace {

std::string escaped(const std::string& text) {
  return markdown_text(text);
}

std::string counters_text(const std::vector<CounterChange>& counters) {
  std::string text;
  for (const CounterChange& one : counters) {
    if (one.from == one.to) continue;
    text += fmt::format("{}{} {:.4g} -> {:.4g}", text.empty() ? "" : ", ", one.name, one.from, one.to);
  }
  return text.empty() ? "no counter moved" : text;
}

// A failure is written down like a success.
std::string not_kept_markdown(const std::vector<ChangeSummary>& changes) {
  std::string text;
  for (const ChangeSummary& change : changes) {
    if (change.fate == Fate::kept || change.why.empty()) continue;
    text += fmt::format("- {} ({}): {}\n", escaped(change.change), name_of(change.fate), escaped(change.why));
  }
  return text.empty() ? "" : "\nWhat was not kept, and why:\n\n" + text;
}

std::string changes_markdown(const std::vector<ChangeSummary>& changes) {
  if (changes.empty()) return "No comparison in this run.\n";
  std::string text = "| change | fate | verdict | effect | evidence | pairs | workload | seconds | record |\n";
  text += "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const ChangeSummary& change : changes) {
    const bool has_effect = change.gain || change.predicted || !change.counters.empty();
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {:.0f} | {} |\n", escaped(change.change),
                        name_of(change.fate), escaped(change.verdict), escaped(effect_text(change)),
                        has_effect ? escaped(change.evidence) : "-", change.pairs,
                        escaped(change.workload.value_or("")), change.seconds, escaped(change.id));
  }
  return text + not_kept_markdown(changes);
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
  if (!summary.endpoints.empty()) {
    text += "\n| of the run | before | after | factor | evidence |\n| --- | --- | --- | --- | --- |\n";
    for (const Endpoints& one : summary.endpoints) {
      text += fmt::format("| {} | {:.6g} | {:.6g} | {} | {} |\n", escaped(one.what), one.before, one.after,
                          factor_text(one), escaped(one.evidence));
    }
  }
  for (const KeptGain& kept : summary.kept) {
    text += fmt::format(
        "\nKept changes together: {} on {} ({}, {}).\n", gain_text(std::optional(kept.gain)), escaped(kept.workload),
        kept.changes == 1 ? "1 change" : fmt::format("{} changes", kept.changes), escaped(kept.evidence));
  }
  return text;
}

}  // namespace

std::string effect_text(const ChangeSummary& change) {
  if (change.gain) return gain_text(*change.gain);
  if (change.predicted) {
    return fmt::format("{:+.1f} % predicted, {:.0f} -> {:.0f} cycles", 100 * change.predicted->gain(),
                       change.predicted->base_cycles, change.predicted->candidate_cycles);
  }
  return change.counters.empty() ? "not measured" : "counted: " + counters_text(change.counters);
}

std::string time_text(const RunSummary& summary) {
  std::string text = fmt::format("{:.1f} min", summary.seconds / 60);
  if (summary.planned_minutes) text += fmt::format(" of {:.0f} min planned", *summary.planned_minutes);
  text += fmt::format(" from the first to the last record, cudadent ran {:.1f} min of it; {} change{} tried",
                      summary.busy_seconds / 60, summary.changes.size(), summary.changes.size() == 1 ? "" : "s");
  if (summary.planned_iterations) text += fmt::format(" of {} iterations planned", *summary.planned_iterations);
  return text + (summary.stopped.empty() ? "." : "; stopped: " + summary.stopped + ".");
}

std::string factor_text(const Endpoints& one) {
  const double factor = one.more_is_better ? one.after / one.before : one.before / one.after;
  return fmt::format("{:.3g}x {}", factor, one.more_is_better ? "as fast" : "fewer");
}

std::string money_text(const RunSummary& summary) {
  const Spent& cost = summary.cost;
  if (!summary.prices) {
    if (cost.total == 0) return "No price given: with [cost] in cudadent.toml it is told here what was spent.";
    return fmt::format("${:.4f} spent: machine ${:.4f}, agent ${:.4f}; the records do not say at what price.",
                       cost.total, cost.machine, cost.agent);
  }
  const std::string text =
      fmt::format("${:.4f} spent: machine ${:.4f} at ${:g} an hour, agent ${:.4f} at ${:g} an hour.", cost.total,
                  cost.machine, summary.prices->machine, cost.agent, summary.prices->agent);
  const auto left = [&](double planned, const std::string& of) {
    const double rest = planned - summary.cost.total;
    return rest >= 0 ? fmt::format(" ${:.4f} of {} left.", rest, of) : fmt::format(" ${:.4f} over {}.", -rest, of);
  };
  if (summary.planned_dollars)
    return text + left(*summary.planned_dollars, fmt::format("${:g}", *summary.planned_dollars));
  if (!summary.planned_minutes) return text + " No budget given.";
  const Spent planned = cost_of(*summary.planned_minutes * 60, *summary.prices);
  return text + left(planned.total,
                     fmt::format("${:.2f} that the planned {:g} min cost", planned.total, *summary.planned_minutes));
}

std::string markdown_of(const RunSummary& summary) {
  std::string text = fmt::format("# Run {} of {}\n\n", escaped(summary.run), escaped(summary.project));
  text += fmt::format("Device {}, {} records from {} to {}", escaped(summary.device), summary.records,
                      escaped(summary.first.substr(0, 19)), escaped(summary.last.substr(0, 19)));
  if (summary.environment && summary.environment->cpu) text += ", on " + escaped(*summary.environment->cpu);
  if (summary.left_out > 0) {
    text += fmt::format(". {} records are left out: they are not as they were written (cudadent journal --check)",
                        summary.left_out);
  }
  if (summary.missing > 0) text += fmt::format(". Records that are missing from the journal: {}", summary.missing);
  text += ".\n\n## Before and after\n\n" + speeds_markdown(summary);
  text += "\n## Changes\n\n" + changes_markdown(summary.changes);
  text += "\n## Gates\n\n";
  if (summary.gates.empty()) text += "No gate run in this run.\n";
  for (const GateSummary& gate : summary.gates) {
    text += fmt::format("- {} {}: {} ({:.0f} s, {})\n", escaped(gate.id), escaped(gate.verdict), escaped(gate.what),
                        gate.seconds, escaped(gate.evidence));
  }
  text += "\n## Bottlenecks\n\n";
  if (summary.bottlenecks.empty()) text += "Nothing in the records tells.\n";
  for (const std::string& bottleneck : summary.bottlenecks) text += "- " + escaped(bottleneck) + "\n";
  text += "\n## Time and cost\n\n" + escaped(time_text(summary)) + "\n" + money_text(summary) + "\n";
  if (!summary.machine_advice.empty()) text += escaped(summary.machine_advice) + "\n";
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
    text += fmt::format("| {} | {} | {:.1f} | {} | {} | {} | {} | {} |\n", escaped(run.run),
                        escaped(run.first.substr(0, 19)), run.seconds / 60,
                        run.prices ? fmt::format("{:.4f}", run.cost.total) : "no price", run.changes.size(), kept,
                        together.empty() ? "-" : escaped(together), speeds.empty() ? "-" : escaped(speeds));
  }
  return text;
}

}  // namespace flashmoe::workflow
