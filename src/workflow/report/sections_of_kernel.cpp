// Why the kernel is as fast as it is, what judged it, and what it cost to find out.
#include <fmt/format.h>

#include <algorithm>

#include "workflow/report/html.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/report/sections.hpp"

namespace flashmoe::workflow {
namespace {

std::string us_text(const predict::Time& time) {
  return time.us > 0 ? fmt::format("{:.2f} us ({:.2f} to {:.2f})", time.us, time.least_us, time.most_us) : "unknown";
}

std::string prediction_table(const RunReport& report) {
  std::vector<TableRow> rows;
  for (const PredictedVersion& version : report.predicted) {
    const PredictionRun& run = version.prediction;
    const LaunchPrediction* longest = run.longest();
    const bool is_predicted = run.is_predicted();
    rows.push_back({text_cell(version.label), code_cell(version.commit.substr(0, 12)),
                    is_predicted ? number_cell(run.cycles(), fmt::format("{:.0f}", run.cycles())) : number_cell(),
                    is_predicted ? number_cell(run.boost().us, us_text(run.boost())) : number_cell(),
                    text_cell(longest != nullptr ? longest->prediction.limiter : prediction_summary(run)),
                    Cell{.html = badge(text_of(run.evidence()))}});
  }
  return table_html({"version", "commit", "cycles of a call", "time at boost", "limited by", "evidence"}, rows);
}

std::string roofline_html(const RunReport& report) {
  RooflineChart chart{.title = "Roofline", .roofs = report.roofs};
  for (const PredictedVersion& version : report.predicted) {
    if (version.place) chart.points.push_back(*version.place);
  }
  if (chart.points.empty() || chart.roofs.empty()) {
    return paragraph("No roofline: of this kernel no floating-point work, no DRAM traffic or no time is known.",
                     "note");
  }
  std::vector<TableRow> rows;
  for (const RooflinePoint& point : chart.points) {
    rows.push_back({text_cell(point.name), number_cell(point.flop_per_byte, fmt::format("{:.3g}", point.flop_per_byte)),
                    number_cell(point.tflops, fmt::format("{:.3g} ({:.3g} to {:.3g})", point.tflops, point.least_tflops,
                                                          point.most_tflops))});
  }
  return "<h3>Roofline, predicted</h3>\n" + chart_html([&](double width) { return roofline_chart(chart, width); }) +
         table_html({"version", "FLOP per byte", "TFLOP/s"}, rows) +
         paragraph(
             "Additions and multiplications counted in the executed PTX (a fused multiply-add is 2, an mma 2 m n k), "
             "bytes of DRAM as the virtual GPU models them, the predicted time; the roofs are data-sheet figures. "
             "Bytes are those of a call on empty caches, while the predicted time is one with everything in L2 that "
             "fits "
             "there: such a point may lie above the roof of DRAM, which does not limit it then.",
             "note");
}

std::string uses_html(const PredictedVersion& version) {
  const LaunchPrediction* longest = version.prediction.longest();
  if (longest == nullptr) return "";
  BarChart chart{.title = "Pipes in use, " + version.label,
                 .x_label = "per cent of the cycles in which an SM has all its CTAs",
                 .evidence = predicted_evidence,
                 .most = 1};
  for (const predict::PipeUse& use : longest->prediction.uses) {
    if (use.use >= 0.01) chart.bars.push_back({std::string(use.name), use.use, fmt::format("{:.0f} %", 100 * use.use)});
  }
  if (chart.bars.empty()) return "";
  return fmt::format("<h3>Pipes in use, predicted: {}</h3>\n", markup_text(version.label)) +
         paragraph(longest->report.name, "note") + chart_html([&](double width) { return bar_chart(chart, width); });
}

std::string stalls_html(const RunReport& report) {
  StackChart chart{.title = "What warps wait for"};
  for (const PredictedVersion& version : report.predicted) {
    const LaunchPrediction* longest = version.prediction.longest();
    if (longest == nullptr) continue;
    const auto waits = longest->waits();
    double total = 0;
    for (const double cycles : waits) total += cycles;
    if (total == 0) continue;
    std::vector<ChartPart> parts;
    for (std::size_t i = 0; i < waits.size(); ++i)
      parts.push_back({std::string(name_of(static_cast<predict::Stall>(i))), waits[i] / total});
    chart.rows.emplace_back(version.label + ": " + longest->report.name, std::move(parts));
  }
  if (chart.rows.empty()) return "";
  return "<h3>What warps wait for, predicted</h3>\n" +
         chart_html([&](double width) { return stack_chart(chart, width); }) +
         paragraph("Share of the cycles of all warps of the longest launch.", "note");
}

std::string doubts_html(const RunReport& report) {
  std::vector<std::string> doubts;
  for (const PredictedVersion& version : report.predicted) {
    for (const LaunchPrediction& launch : version.prediction.launches) {
      for (const std::string& one : launch.prediction.doubts) doubts.push_back(version.label + ": " + one);
      for (const std::string& one : launch.prediction.refusals)
        doubts.push_back(version.label + ", not predicted: " + one);
    }
  }
  return doubts.empty() ? "" : "<h3>Doubts of the model</h3>\n" + list_html(doubts);
}

std::string profile_html(const RunReport& report) {
  if (!report.profile) return "";
  const auto& profile = std::get<ProfileRecord>(report.profile->body).profile;
  const std::string evidence = report.profile->evidence ? text_of(*report.profile->evidence) : "not recorded";
  std::string html = "<h3>The last profile</h3>\n<p>" + badge(evidence) + "</p>\n";
  if (report.profile->run != report.summary.run) html += paragraph("of run " + report.profile->run, "note");
  if (profile.bottleneck) {
    html += paragraph(fmt::format("{}: {}", profile.bottleneck->bottleneck, profile.bottleneck->says));
    html += paragraph("Change: " + profile.bottleneck->change);
  }
  if (!profile.degraded.empty()) html += paragraph(profile.degraded, "note");
  std::vector<TableRow> rows;
  for (const auto& [name, value] : profile.counted)
    rows.push_back({text_cell(name), number_cell(value, fmt::format("{:.6g}", value))});
  if (rows.empty()) return html;
  return html + "<details><summary>" + std::to_string(rows.size()) + " counters</summary>" +
         table_html({"counter", "value"}, rows) + "</details>\n";
}

}  // namespace

std::string limits_section(const RunReport& report) {
  std::string html;
  if (!report.summary.bottlenecks.empty()) html += list_html(report.summary.bottlenecks);
  if (!report.not_predicted.empty()) html += paragraph("Not predicted: " + report.not_predicted + ".", "note");
  if (!report.predicted.empty()) {
    html += "<h3>The model's answer</h3>\n" + prediction_table(report) + roofline_html(report) + stalls_html(report);
    for (const PredictedVersion& version : report.predicted) html += uses_html(version);
    html += doubts_html(report);
  }
  html += profile_html(report);
  return html.empty() ? paragraph("Nothing in the records tells.") : html;
}

namespace {

std::string counted(double value) {
  return value > 0 ? fmt::format("{:.0f}", value) : "";
}

std::string line_html(const AnnotatedLine& line) {
  const bool is_hot = line.share > 0;
  const std::string share = is_hot ? figure(line.share, fmt::format("{:.1f} %", 100 * line.share)) : "";
  const std::string sectors = line.sectors > 0 ? fmt::format("{:.0f}/{:.0f}", line.sectors, line.sectors_ideal) : "";
  return fmt::format(
      "<tr class=\"{}\"><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td>"
      "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"{}\"{}>{}</td></tr>\n",
      is_hot ? "hot" : "cold", line.number, share, markup_text(line.waits), counted(line.executions),
      counted(line.bank_conflicts), sectors, is_hot ? "heat" : "",
      is_hot ? fmt::format(" style=\"--share:{:.1f}%\"", 100 * std::min(1.0, 4 * line.share)) : "",
      markup_text(line.text.empty() ? " " : line.text));
}

std::string file_html(const AnnotatedFile& file) {
  std::string html = fmt::format("<h3>{}, {} of the cycles</h3>\n", markup_text(file.name),
                                 figure(file.share, fmt::format("{:.0f} %", 100 * file.share)));
  html +=
      "<div class=\"source\"><table><thead><tr><th class=\"n\">line</th><th class=\"n\">cycles</th><th>mostly waits "
      "for</th><th class=\"n\">SASS</th><th class=\"n\">conflicts</th><th class=\"n\">sectors</th><th>source</th>"
      "</tr></thead><tbody>\n";
  int before = 0;
  for (const AnnotatedLine& line : file.lines) {
    if (before > 0 && line.number > before + 1) html += "<tr class=\"gap\"><td colspan=\"7\">...</td></tr>\n";
    html += line_html(line);
    before = line.number;
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string source_section(const RunReport& report) {
  if (report.predicted.empty() || report.predicted.back().sources.empty())
    return paragraph(
        "No counters by line: " +
        (report.not_predicted.empty() ? std::string("the image has no lines of a source") : report.not_predicted) +
        ".");
  const PredictedVersion& version = report.predicted.back();
  std::string html = "<p>" + badge(text_of(version.prediction.evidence())) + " " +
                     badge(text_of(evidence_on(report.summary.device, ""))) + "</p>\n";
  html +=
      paragraph(fmt::format("Version: {}. Cycles of warps, what they wait for and SASS instructions of the heaviest "
                            "CTA are predicted; bank conflicts, and sectors of global memory with those that would "
                            "do, are counted on the virtual GPU, over the whole grid; where nothing stands there was "
                            "none. A bar over the whole width is a quarter of the cycles.",
                            version.label),
                "note");
  for (const AnnotatedFile& file : version.sources) html += file_html(file);
  return html;
}

std::string gates_section(const RunReport& report) {
  if (!report.gate) {
    return paragraph(
        "No gate run is recorded on this device. Each change of a loop passes the environment and build gates, "
        "and is held against the reference, before it is compared; what did not is listed above.");
  }
  const auto& run = std::get<GateRecord>(report.gate->body);
  std::string html = "<p>" + badge(report.gate->evidence ? text_of(*report.gate->evidence) : "not recorded") + "</p>\n";
  html += paragraph(fmt::format("Record {}, {}, commit {}{}", report.gate->id, report.gate->time.substr(0, 19),
                                report.gate->commit.value_or("none").substr(0, 12),
                                report.gate->run == report.summary.run ? "" : "; of run " + report.gate->run),
                    "note");
  std::vector<TableRow> rows;
  std::vector<TableRow> findings;
  for (const GateResult& gate : run.gates) {
    rows.push_back({text_cell(gate.gate), gate.not_run ? text_cell("not run") : word_cell(name_of(gate.outcome)),
                    text_cell(gate.summary), number_cell(gate.seconds, fmt::format("{:.1f} s", gate.seconds))});
    for (const Finding& finding : gate.findings) {
      if (finding.severity == Severity::ok) continue;
      findings.push_back({text_cell(gate.gate), word_cell(name_of(finding.severity)), text_cell(finding.what),
                          text_cell(finding.where), text_cell(finding.fix)});
    }
  }
  html += table_html({"gate", "outcome", "what", "time"}, rows);
  if (!findings.empty()) html += table_html({"gate", "severity", "finding", "where", "fix"}, findings);
  if (report.gate_runs.size() > 1)
    html += paragraph(fmt::format("{} gate runs in this run; this is the last.", report.gate_runs.size()), "note");
  return html;
}

std::string timed_section(const RunReport& report) {
  if (report.timed.empty()) return paragraph("Nothing was timed in this run.");
  constexpr std::size_t most = 40;  // the last ones; each is a picture of all its blocks
  const std::size_t first = report.timed.size() - std::min(most, report.timed.size());
  std::string html;
  for (std::size_t i = first; i < report.timed.size(); ++i) {
    const TimedBlocks& timed = report.timed[i];
    StripChart chart{.title = timed.what,
                     .x_label = timed.unit,
                     .evidence = kind_of(timed.evidence),
                     .line = timed.equal,
                     .rows = timed.rows};
    html += fmt::format("<h3>{}</h3>\n<p>{} <span class=\"note\">record {}</span></p>\n", markup_text(timed.what),
                        badge(timed.evidence), markup_text(timed.record));
    html += chart_html([&](double width) { return strip_chart(chart, width); });
  }
  if (first > 0) html += paragraph(fmt::format("{} earlier ones are left out here.", first), "note");
  return html + paragraph(
                    "Every dot is a block (base, candidate, candidate, base) of a comparison, or a pair of processes "
                    "of a gate run; the "
                    "bar is the middle half, the line in it the median. The dashed line is equality.",
                    "note");
}

std::string money_section(const RunReport& report) {
  const RunSummary& summary = report.summary;
  std::string html = paragraph(time_text(summary)) + paragraph(money_text(summary));
  if (!summary.machine_advice.empty()) html += paragraph(summary.machine_advice);
  std::vector<TableRow> rows;
  const auto row = [&](const char* what, const Cell& spent, const Cell& planned) {
    rows.push_back({text_cell(what), spent, planned});
  };
  row("time", number_cell(summary.seconds, fmt::format("{:.1f} min", summary.seconds / 60)),
      summary.planned_minutes ? number_cell(*summary.planned_minutes, fmt::format("{:g} min", *summary.planned_minutes))
                              : number_cell());
  row("of it cudadent ran", number_cell(summary.busy_seconds, fmt::format("{:.1f} min", summary.busy_seconds / 60)),
      number_cell());
  row("changes", number_cell(static_cast<double>(summary.changes.size()), std::to_string(summary.changes.size())),
      summary.planned_iterations ? number_cell(*summary.planned_iterations, std::to_string(*summary.planned_iterations))
                                 : number_cell());
  if (summary.prices || summary.cost.total > 0) {
    row("machine", number_cell(summary.cost.machine, fmt::format("${:.4f}", summary.cost.machine)), number_cell());
    row("agent", number_cell(summary.cost.agent, fmt::format("${:.4f}", summary.cost.agent)), number_cell());
    row("total", number_cell(summary.cost.total, fmt::format("${:.4f}", summary.cost.total)),
        summary.planned_dollars
            ? number_cell(*summary.planned_dollars, fmt::format("${:.2f}", *summary.planned_dollars))
            : number_cell());
  }
  return html + table_html({"what", "spent", "planned"}, rows);
}

std::string goals_section(const RunReport& report) {
  if (report.summary.next_goals.empty()) return paragraph("Nothing is open.");
  return list_html(report.summary.next_goals);
}

}  // namespace flashmoe::workflow
