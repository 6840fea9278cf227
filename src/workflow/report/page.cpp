// The report as a page: one section a question, each figure with the kind of evidence it stands on.
#include <fmt/format.h>

#include "support/text.hpp"
#include "workflow/report/html.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/report/sections.hpp"
#include "workflow/report/style.hpp"

namespace flashmoe::workflow {
namespace {

std::string card(const std::string& figure_html, const std::string& text, const std::string& below = "") {
  return fmt::format("<div class=\"card\"><b>{}</b><small>{}</small>{}</div>\n", figure_html, markup_text(text), below);
}

std::string cards(const RunReport& report) {
  const RunSummary& summary = report.summary;
  std::string html = "<div class=\"cards\">\n";
  for (const Endpoints& one : summary.endpoints) {
    const double factor = one.more_is_better ? one.after / one.before : one.before / one.after;
    html +=
        card(figure(factor, fmt::format("{:.3g}x", factor)),
             fmt::format("{}{}: {:.6g} to {:.6g}", one.more_is_better ? "" : "fewer ", one.what, one.before, one.after),
             badge(one.evidence));
  }
  for (const auto& [workload, speed] : summary.after) {
    html +=
        card(figure(speed.speedup, fmt::format("{:.3f}x", speed.speedup)),
             fmt::format("the baseline's speed on {}, at least {:.3f}x", workload, speed.lower), badge(speed.evidence));
  }
  int kept = 0;
  for (const ChangeSummary& change : summary.changes) kept += change.fate == Fate::kept ? 1 : 0;
  html += card(fmt::format("{} of {}", figure(kept, std::to_string(kept)),
                           figure(static_cast<double>(summary.changes.size()), std::to_string(summary.changes.size()))),
               "changes kept");
  html += card(figure(summary.seconds, fmt::format("{:.1f} min", summary.seconds / 60)),
               summary.planned_minutes ? fmt::format("of {:g} min planned", *summary.planned_minutes)
                                       : "from the first record to the last");
  html += summary.prices || summary.cost.total > 0
              ? card(figure(summary.cost.total, fmt::format("${:.4f}", summary.cost.total)), "spent")
              : card("-", "no price given");
  return html + "</div>\n";
}

std::string header(const RunReport& report) {
  const RunSummary& summary = report.summary;
  std::string html =
      fmt::format("<header><h1>{}</h1>\n", markup_text(summary.project.empty() ? "A kernel project" : summary.project));
  std::string line = fmt::format("Run {} on {}, {} records from {} to {} UTC", summary.run, summary.device,
                                 summary.records, summary.first.substr(0, 19), summary.last.substr(0, 19));
  if (summary.environment && summary.environment->cpu) line += ", on " + *summary.environment->cpu;
  html += paragraph(line, "note");
  return html + cards(report);
}

std::string evidence_words() {
  const auto row = [](const char* kind, const char* says) { return TableRow{{.html = badge(kind)}, text_cell(says)}; };
  return table_html({"evidence", "what it is"},
                    {row("measured", "a clock ran, on the machine that is named"),
                     row("virtual", "counted by the virtual GPU: exact counts, and no time"),
                     row("predicted", "cycles that a model makes of the machine code: no clock ran, no GPU was there"),
                     row("rehearsal",
                         "the virtual GPU stood in for a card: the steps are tried, no figure is one of a card")}) +
         paragraph("Figures of different kinds are never added, divided or drawn in one chart.", "note");
}

std::string provenance(const RunReport& report) {
  std::string html;
  if (report.summary.left_out > 0) {
    html += paragraph(fmt::format("{} records of this run are left out, because they are not as they were written:",
                                  report.summary.left_out));
    html += list_html(report.refused_records);
  } else {
    html += paragraph("No record of this run was found changed.");
  }
  if (report.summary.missing > 0)
    html += paragraph(
        fmt::format("Records that are missing from the journal, of this run or another: {}.", report.summary.missing));
  return html + paragraph("Made by cudadent report at " + report.made + " from the project's journal.", "note");
}

}  // namespace

std::string html_of(const RunReport& report) {
  struct Part {
    const char* id;
    const char* title;
    std::string body;
  };
  const std::vector<Part> parts{{"speed", "Speed per iteration", speed_section(report)},
                                {"ladder", "The ladder of kept changes", ladder_section(report)},
                                {"changes", "Changes tried", changes_section(report)},
                                {"refused", "What was not kept, and why", refused_section(report)},
                                {"limits", "What limits it", limits_section(report)},
                                {"source", "Hot lines", source_section(report)},
                                {"gates", "Gates", gates_section(report)},
                                {"timed", "Timed blocks", timed_section(report)},
                                {"money", "Time and money", money_section(report)},
                                {"goals", "Next", goals_section(report)},
                                {"evidence", "How to read this", evidence_words() + provenance(report)}};
  std::string nav = "<nav>";
  std::string sections;
  for (const Part& part : parts) {
    nav += fmt::format("<a href=\"#{}\">{}</a>", part.id, part.title);
    sections += section_html(part.id, part.title, part.body);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>:root{{{}}}\n"
      "@media(prefers-color-scheme:dark){{:root{{{}}}}}\n{}{}</style></head>\n<body><main>\n{}{}</nav></header>\n{}"
      "</main></body></html>\n",
      markup_text(fmt::format("{}: run {}", report.summary.project, report.summary.run)), light_colours, dark_colours,
      page_style, chart_style, header(report), nav, sections);
}

}  // namespace flashmoe::workflow
