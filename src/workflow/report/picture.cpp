// A run as a picture to post: one figure with its evidence, and the way there. Readable at a third of its size.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workflow/report/axis.hpp"
#include "workflow/report/drawing.hpp"
#include "workflow/report/html.hpp"
#include "workflow/report/sections.hpp"
#include "workflow/report/style.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double picture_width = 1200, picture_height = 630, margin = 64;
constexpr double widest_digit = 0.72;  // of a bold font, in its size

struct Headline {
  std::string figure{};
  std::string says{};
  std::string evidence{};
};

// What was measured before what was predicted before what was counted; a rehearsal is no speed.
Headline headline_of(const RunSummary& summary) {
  const auto of_kind = [](const std::string& evidence, const char* kind) { return kind_of(evidence) == kind; };
  for (const auto& [workload, speed] : summary.after) {
    if (of_kind(speed.evidence, measured_evidence))
      return {fmt::format("{:.2f}x", speed.speedup), "the baseline's speed on " + workload, speed.evidence};
  }
  for (const char* kind : {measured_evidence, predicted_evidence, virtual_evidence}) {
    for (const Endpoints& one : summary.endpoints) {
      if (!of_kind(one.evidence, kind)) continue;
      const double factor = one.more_is_better ? one.after : one.before / one.after;
      return {fmt::format("{:.3g}x", factor), one.more_is_better ? one.what : "fewer " + one.what, one.evidence};
    }
    for (const KeptGain& one : summary.kept) {
      if (of_kind(one.evidence, kind))
        return {fmt::format("{:+.1f} %", 100 * one.gain), "faster on " + one.workload, one.evidence};
    }
  }
  const auto kept = std::count_if(summary.changes.begin(), summary.changes.end(),
                                  [](const ChangeSummary& one) { return one.fate == Fate::kept; });
  return {fmt::format("{} of {}", kept, summary.changes.size()), "changes kept", ""};
}

// What the kind means, for those who read nothing else.
std::string meaning_of(const std::string& kind, const std::string& evidence) {
  if (kind == measured_evidence) return evidence;
  if (kind == predicted_evidence) return "by a model: no card has run it";
  if (kind == virtual_evidence) return "by a virtual GPU: no time";
  return "nothing timed, predicted, counted";
}

// The steps of one chart without its small print.
void draw_way(Drawing& drawing, const StepChart& chart, Span columns, Span rows) {
  std::vector<ChartPoint> points;
  for (const ChartPoint& point : chart.points) {
    if (point.value && (!chart.logarithmic || *point.value > 0)) points.push_back(point);
  }
  if (points.empty()) return;
  Span values{*points[0].value, *points[0].value};
  for (const ChartPoint& point : points) {
    for (const auto& value : {point.value, point.lower, point.upper}) {
      if (value) values = {std::min(values.from, *value), std::max(values.to, *value)};
    }
  }
  if (!chart.logarithmic) values = {std::min(values.from, 0.0), std::max(values.to, 0.0)};
  const Axis y = chart.logarithmic ? Axis::logarithmic(values, rows) : Axis::linear(values, rows, 4);
  const double last = std::max(points.back().x, 1.0);
  const auto x_at = [&](double x) { return columns.from + 30 + x / last * (columns.to - columns.from - 60); };
  for (const double mark : y.marks()) {
    drawing.line(columns.from, y.at(mark), columns.to, y.at(mark), mark == 0 ? "axis" : "grid");
    drawing.text(columns.from - 12, y.at(mark) + 8, figure_text(mark) + chart.unit,
                 {.anchor = Anchor::end, .size = 22});
  }
  const std::string first = points[0].x == 0 ? "start" : fmt::format("{} {:g}", chart.x_label, points[0].x);
  drawing.text(x_at(points[0].x), rows.from + 32, first, {.anchor = Anchor::middle, .size = 22});
  if (points.size() > 1) {
    drawing.text(columns.to, rows.from + 32, fmt::format("{} {:g}", chart.x_label, points.back().x),
                 {.anchor = Anchor::end, .size = 22});
  }
  std::string d;
  for (const ChartPoint& point : points) {
    if (point.mark != Mark::kept && point.x != 0) continue;
    d += d.empty() ? fmt::format("M{:.1f} {:.1f}", x_at(point.x), y.at(*point.value))
                   : fmt::format("H{:.1f}V{:.1f}", x_at(point.x), y.at(*point.value));
  }
  if (chart.joins_kept && !d.empty())
    drawing.path(d + fmt::format("H{:.1f}", x_at(last)), "step thick " + chart.evidence);
  for (const ChartPoint& point : points) {
    if (point.lower && point.upper)
      drawing.line(x_at(point.x), y.at(*point.lower), x_at(point.x), y.at(*point.upper),
                   "whisker thick " + chart.evidence);
    const bool is_full = point.mark == Mark::kept || point.mark == Mark::plain;
    drawing.circle(x_at(point.x), y.at(*point.value), is_full ? 10 : 8,
                   fmt::format("{} {}", is_full ? "dot" : "ring", chart.evidence));
  }
}

}  // namespace

std::string picture_of(const RunReport& report) {
  const RunSummary& summary = report.summary;
  const Headline headline = headline_of(summary);
  const std::string kind = kind_of(headline.evidence);
  Drawing drawing(picture_width, picture_height);
  drawing.rect(0, 0, picture_width, picture_height, "page");
  drawing.rect(0, 0, 14, picture_height, "bar " + kind);
  drawing.text(margin, 84, fitted(summary.project.empty() ? "a kernel project" : summary.project, 46, 720),
               {.css = "strong", .size = 46});
  drawing.text(picture_width - margin, 80, fitted(summary.device, 28, 330), {.anchor = Anchor::end, .size = 28});
  const std::vector<StepChart> charts = speed_charts(report);
  const auto chart =
      std::find_if(charts.begin(), charts.end(), [&](const StepChart& one) { return one.evidence == kind; });
  const bool has_way = chart != charts.end() && chart->points.size() > 1;
  const double room = (has_way ? 540 : picture_width) - margin;
  const double size =
      std::min(124.0, room / (widest_digit * static_cast<double>(std::max<std::size_t>(headline.figure.size(), 4))));
  drawing.text(margin, 270, headline.figure, {.css = "strong", .size = size});
  drawing.text(margin, 326, fitted(headline.says, 30, room), {.css = "label", .size = 30});
  drawing.circle(margin + 10, 384, 10, "dot " + kind);
  drawing.text(margin + 32, 394, kind == no_evidence ? "no figure" : kind, {.css = "strong", .size = 32});
  drawing.text(margin, 436, fitted(meaning_of(kind, headline.evidence), 24, room), {.size = 24});
  if (has_way) {
    const std::string label = chart->title.substr(0, chart->title.find(':'));
    drawing.text(620, 150, fitted(label + (chart->logarithmic ? " (log scale)" : ""), 24, 520), {.size = 24});
    draw_way(drawing, *chart, {690, picture_width - margin}, {480, 185});
  }
  const auto kept = std::count_if(summary.changes.begin(), summary.changes.end(),
                                  [](const ChangeSummary& one) { return one.fate == Fate::kept; });
  const std::string money = summary.prices ? fmt::format("${:.2f}", summary.cost.total) : "no price given";
  drawing.line(margin, 530, picture_width - margin, 530, "grid");
  drawing.text(
      margin, 580,
      fmt::format("{} of {} changes kept · {:.1f} min · {}", kept, summary.changes.size(), summary.seconds / 60, money),
      {.css = "label", .size = 28});
  drawing.text(picture_width - margin, 580, "cudadent", {.css = "strong", .anchor = Anchor::end, .size = 28});
  const std::string style = fmt::format(
      ":root{{{}}}@media(prefers-color-scheme:dark){{:root{{{}}}}}{}"
      "svg .page{{fill:var(--card)}}svg .thick{{stroke-width:6}}",
      light_colours, dark_colours, chart_style);
  return drawing.svg(fmt::format("{}: {} {}, {}", summary.project, headline.figure, headline.says,
                                 headline.evidence.empty() ? "no figure" : headline.evidence),
                     style);
}

}  // namespace flashmoe::workflow
