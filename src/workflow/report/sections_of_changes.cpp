// What happened: speed over the iterations, the ladder, what was tried and what came of it.
#include <fmt/format.h>

#include <algorithm>

#include "workflow/journal/listing.hpp"
#include "workflow/report/html.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/report/sections.hpp"

namespace flashmoe::workflow {
namespace {

Mark mark_of(Fate fate) {
  return fate == Fate::kept      ? Mark::kept
         : fate == Fate::left    ? Mark::left
         : fate == Fate::refused ? Mark::refused
                                 : Mark::open;
}

std::string hint_of(const ChangeSummary& change, std::size_t number) {
  return fmt::format("{}: {} ({}), {}", number, change.change, name_of(change.fate), effect_text(change));
}

// What all charts over the changes have in common: a change without a figure of this kind is only told where it came
// to none at all.
StepChart over_changes(const std::string& title, const std::string& y_label, const std::string& evidence) {
  return {
      .title = title, .y_label = y_label, .x_label = "change", .evidence = kind_of(evidence), .stands_on = evidence};
}

bool has_figure(const ChangeSummary& change) {
  return change.gain || change.predicted || !change.counters.empty();
}

void add_refused(const std::vector<ChangeSummary>& changes, StepChart& chart) {
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (has_figure(changes[i])) continue;
    chart.points.push_back(
        {.x = static_cast<double>(i + 1), .mark = Mark::refused, .hint = hint_of(changes[i], i + 1)});
  }
  std::stable_sort(chart.points.begin(), chart.points.end(), [](const auto& a, const auto& b) { return a.x < b.x; });
}

// Kinds and places of evidence of what `has` chooses, in their order.
template <class Has>
std::vector<std::string> evidences(const std::vector<ChangeSummary>& changes, const Has& has) {
  std::vector<std::string> all;
  for (const ChangeSummary& change : changes) {
    if (has(change) && std::find(all.begin(), all.end(), change.evidence) == all.end()) all.push_back(change.evidence);
  }
  return all;
}

void add_predicted(const std::vector<ChangeSummary>& changes, std::vector<StepChart>& charts) {
  for (const std::string& evidence : evidences(changes, [](const auto& one) { return one.predicted.has_value(); })) {
    StepChart chart = over_changes("Cycles of a call: fewer is better", "cycles, log scale", evidence);
    chart.logarithmic = true;
    chart.joins_kept = true;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (!changes[i].predicted || changes[i].evidence != evidence) continue;
      const PredictedGain& gain = *changes[i].predicted;
      if (chart.points.empty()) chart.points.push_back({.value = gain.base_cycles, .hint = "start"});
      chart.points.push_back({.x = static_cast<double>(i + 1),
                              .value = gain.candidate_cycles,
                              .mark = mark_of(changes[i].fate),
                              .hint = hint_of(changes[i], i + 1)});
    }
    charts.push_back(std::move(chart));
  }
}

void add_gains(const std::vector<ChangeSummary>& changes, std::vector<StepChart>& charts) {
  const auto is_timed = [](const ChangeSummary& one) { return one.gain && one.gain->mean; };
  for (const std::string& evidence : evidences(changes, is_timed)) {
    StepChart chart = over_changes("Gain over the version before", "gain in time", evidence);
    chart.unit = " %";
    chart.lines = {{0, "no gain"}};
    const auto percent = [](const std::optional<double>& gain) {
      return gain ? std::optional(100 * *gain) : std::nullopt;
    };
    for (std::size_t i = 0; i < changes.size(); ++i) {
      if (!is_timed(changes[i]) || changes[i].evidence != evidence) continue;
      const Gain& gain = *changes[i].gain;
      chart.points.push_back({.x = static_cast<double>(i + 1),
                              .value = percent(gain.mean),
                              .lower = percent(gain.lower),
                              .upper = percent(gain.upper),
                              .mark = mark_of(changes[i].fate),
                              .hint = hint_of(changes[i], i + 1)});
    }
    charts.push_back(std::move(chart));
  }
}

constexpr const char* shown_counter = "vgpu__ptx_inst_executed.sum";

const CounterChange* instructions_of(const ChangeSummary& change) {
  for (const CounterChange& one : change.counters) {
    if (one.name == shown_counter && one.from > 0 && one.to > 0) return &one;
  }
  return nullptr;
}

// What the virtual GPU counted is exact, and another kind of evidence than the cycles that are predicted.
void add_counters(const RunSummary& summary, std::vector<StepChart>& charts) {
  const std::vector<ChangeSummary>& changes = summary.changes;
  const Evidence counted = evidence_on(summary.device, "");
  if (counted.kind != virtual_evidence) return;
  StepChart chart =
      over_changes("Instructions of all warps in a call: fewer is better", "instructions, log scale", text_of(counted));
  chart.logarithmic = true;
  chart.joins_kept = true;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const CounterChange* counter = instructions_of(changes[i]);
    if (counter == nullptr) continue;
    if (chart.points.empty()) chart.points.push_back({.value = counter->from, .hint = "start"});
    chart.points.push_back(
        {.x = static_cast<double>(i + 1),
         .value = counter->to,
         .mark = mark_of(changes[i].fate),
         .hint = fmt::format("{}: {}, {:.0f} -> {:.0f}", i + 1, changes[i].change, counter->from, counter->to)});
  }
  if (chart.points.empty()) return;
  charts.push_back(std::move(chart));
}

// Against the baseline, as the gate runs measured it.
void add_gate_speeds(const RunReport& report, std::vector<StepChart>& charts) {
  Named<StepChart> by_place;
  for (std::size_t i = 0; i < report.gate_runs.size(); ++i) {
    const Record& record = report.gate_runs[i];
    const std::string evidence = record.evidence ? text_of(*record.evidence) : "not recorded";
    for (const GateResult& gate : std::get<GateRecord>(record.body).gates) {
      const auto* timed = std::get_if<PerformanceFacts>(&gate.facts);
      if (timed == nullptr) continue;
      for (const auto& [workload, measured] : timed->workloads) {
        if (!measured.speed) continue;
        const std::string place = fmt::format("{} {}", workload, evidence);
        if (find_named(by_place, place) == nullptr) {
          StepChart chart{.title = "Speed against the baseline on " + workload,
                          .y_label = "times the baseline",
                          .x_label = "gate run",
                          .evidence = kind_of(evidence),
                          .stands_on = evidence};
          chart.unit = "x";
          for (const double rung : report.ladder) chart.lines.push_back({rung, fmt::format("{:g}x", rung)});
          put_named(by_place, place, std::move(chart));
        }
        const RatioFacts& ratio = measured.speed->ratio;
        const auto known = [](double bound) { return bound > 0 ? std::optional(bound) : std::nullopt; };
        for (auto& [name, chart] : by_place) {
          if (name != place) continue;
          chart.points.push_back({.x = static_cast<double>(i + 1),
                                  .value = ratio.mean,
                                  .lower = known(ratio.lower),
                                  .upper = known(ratio.upper),
                                  .hint = fmt::format("record {}: {:.3f}x", record.id, ratio.mean)});
        }
      }
    }
  }
  for (auto& [place, chart] : by_place) charts.push_back(std::move(chart));
}

// A page has room for so many that were not kept: the last ones. Of a search over thousands the journal has them all.
constexpr std::size_t most_not_kept = 400;

std::size_t first_shown(const std::vector<ChangeSummary>& changes) {
  std::size_t first = changes.size();
  for (std::size_t shown = 0; first > 0; --first) {
    if (changes[first - 1].fate != Fate::kept && ++shown > most_not_kept) break;
  }
  return first;
}

std::string what_is_left_out(std::size_t count) {
  if (count == 0) return "";
  return paragraph(
      fmt::format("{} earlier ones that were not kept are left out here: cudadent journal has them.", count), "note");
}

}  // namespace

std::vector<StepChart> speed_charts(const RunReport& report) {
  std::vector<StepChart> charts;
  add_gains(report.summary.changes, charts);
  add_predicted(report.summary.changes, charts);
  add_counters(report.summary, charts);
  if (!charts.empty()) add_refused(report.summary.changes, charts.front());  // they are of no kind of evidence
  const auto first = static_cast<double>(first_shown(report.summary.changes));
  for (StepChart& chart : charts) {
    std::erase_if(chart.points,
                  [&](const ChartPoint& one) { return one.x >= 1 && one.x <= first && one.mark != Mark::kept; });
  }
  add_gate_speeds(report, charts);
  return charts;
}

std::string speed_section(const RunReport& report) {
  const std::vector<StepChart> charts = speed_charts(report);
  if (charts.empty())
    return paragraph("Nothing in this run came to a figure of speed, measured, predicted or counted.");
  std::string html;
  for (const StepChart& chart : charts) {
    html += fmt::format("<h3>{}</h3>\n<p>{}</p>\n", markup_text(chart.title), badge(chart.stands_on));
    html += chart_html([&](double width) { return step_chart(chart, width); });
  }
  return html +
         paragraph(
             "Intervals are the confidence bounds of the record; a prediction has none there, and counts are exact.",
             "note");
}

std::vector<BarChart> ladder_charts(const RunReport& report) {
  std::vector<BarChart> charts;
  for (std::size_t i = 0; i < report.summary.changes.size(); ++i) {
    const ChangeSummary& change = report.summary.changes[i];
    const auto gain = change.predicted ? std::optional(change.predicted->gain())
                      : change.gain    ? change.gain->mean
                                       : std::nullopt;
    if (change.fate != Fate::kept || !gain) continue;
    const std::string workload = change.workload.value_or("");
    const std::string title = fmt::format("Kept changes together on {}, {}", workload, change.evidence);
    auto chart = std::find_if(charts.begin(), charts.end(), [&](const BarChart& one) { return one.title == title; });
    if (chart == charts.end()) {
      chart = charts.insert(charts.end(), {.title = title,
                                           .x_label = "speed, the start is 1x",
                                           .evidence = kind_of(change.evidence),
                                           .bars = {{"start", 1, "1x", "before"}}});
    }
    const double together = chart->bars.back().value * (1 + *gain);
    chart->bars.push_back({fmt::format("{}. {}", i + 1, change.change), together,
                           fmt::format("{:.3g}x ({:+.1f} %)", together, 100 * *gain)});
  }
  return charts;
}

std::string ladder_section(const RunReport& report) {
  const std::vector<BarChart> charts = ladder_charts(report);
  if (charts.empty()) return paragraph("No change was kept on a figure.");
  std::string html;
  for (const BarChart& chart : charts) {
    html += paragraph(chart.title);
    html += chart_html([&](double width) { return bar_chart(chart, width); });
  }
  return html +
         paragraph("Each bar is the product of the mean gains up to there; no interval is claimed for a product.",
                   "note");
}

std::string changes_section(const RunReport& report) {
  const std::vector<ChangeSummary>& changes = report.summary.changes;
  if (changes.empty()) return paragraph("No change was tried in this run.");
  const std::size_t first = first_shown(changes);
  std::vector<TableRow> rows;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const ChangeSummary& change = changes[i];
    if (i < first && change.fate != Fate::kept) continue;
    Cell effect = text_cell("not measured");
    if (change.gain && change.gain->mean) effect = {.html = figure(*change.gain->mean, gain_text(*change.gain))};
    if (change.predicted) {
      effect = {.html = figure(change.predicted->gain(), effect_text(change))};
    } else if (!change.gain && !change.counters.empty()) {
      effect = text_cell(effect_text(change));
    }
    rows.push_back({number_cell(static_cast<double>(i + 1), std::to_string(i + 1)), text_cell(change.change),
                    word_cell(name_of(change.fate)), effect,
                    has_figure(change) ? Cell{.html = badge(change.evidence)} : text_cell("-"),
                    number_cell(change.seconds, fmt::format("{:.0f} s", change.seconds)), code_cell(change.id)});
  }
  return table_html({"#", "change", "fate", "effect", "evidence", "time", "record"}, rows) +
         what_is_left_out(changes.size() - rows.size());
}

std::string refused_section(const RunReport& report) {
  std::vector<TableRow> rows;
  const std::size_t first = first_shown(report.summary.changes);
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < report.summary.changes.size(); ++i) {
    const ChangeSummary& change = report.summary.changes[i];
    if (change.fate == Fate::kept) continue;
    if (i < first) {
      ++left_out;
      continue;
    }
    rows.push_back({number_cell(static_cast<double>(i + 1), std::to_string(i + 1)), text_cell(change.change),
                    word_cell(name_of(change.fate)), text_cell(change.verdict),
                    text_cell(change.why.empty() ? "nobody has decided" : change.why)});
  }
  if (rows.empty()) return paragraph("Nothing was refused, left or is open.");
  return table_html({"#", "change", "fate", "verdict", "why"}, rows) + what_is_left_out(left_out);
}

}  // namespace flashmoe::workflow
