// Values over iterations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workflow/report/axis.hpp"
#include "workflow/report/charts.hpp"
#include "workflow/report/drawing.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double top = 46, bottom = 44;

const char* name_of(Mark mark) {
  switch (mark) {
    case Mark::kept:
      return "kept";
    case Mark::left:
      return "left";
    case Mark::refused:
      return "refused";
    case Mark::open:
      return "open";
    case Mark::plain:
      break;
  }
  return "plain";
}

void draw_mark(Drawing& drawing, double x, double y, Mark mark, const std::string& evidence,
               const std::string& hint = "") {
  if (mark == Mark::refused) {
    drawing.path(fmt::format("M{:.1f} {:.1f}l8 8m0 -8l-8 8", x - 4, y - 4), "cross");
    drawing.circle(x, y, 7, "clear", hint);
    return;
  }
  const bool is_full = mark == Mark::kept || mark == Mark::plain;
  drawing.circle(x, y, is_full ? 5 : 4,
                 fmt::format("{} {}",
                             is_full              ? "dot"
                             : mark == Mark::open ? "ring undecided"
                                                  : "ring",
                             evidence),
                 hint);
}

Span values_of(const StepChart& chart) {
  std::optional<Span> span;
  const auto widen = [&](std::optional<double> value) {
    if (!value || (chart.logarithmic && *value <= 0)) return;
    if (!span) span = Span{*value, *value};
    span = Span{std::min(span->from, *value), std::max(span->to, *value)};
  };
  for (const ChartPoint& point : chart.points) {
    widen(point.value);
    widen(point.lower);
    widen(point.upper);
  }
  for (const ChartLine& line : chart.lines) widen(line.value);
  return span.value_or(Span{chart.logarithmic ? 1.0 : 0.0, 1});
}

double widest_mark(const Axis& axis, const std::string& unit) {
  double widest = 0;
  for (const double mark : axis.marks())
    widest = std::max(widest, text_width(figure_text(mark) + unit, chart_text_size));
  return widest;
}

class StepPlot {
 public:
  StepPlot(const StepChart& chart, double width)
      : chart_(chart), drawing_(width, std::clamp(width * 0.42, 240.0, 340.0)) {
    const double foot = drawing_.height() - bottom;
    const Span rows{foot, top};
    const Span values = values_of(chart);
    y_ = chart.logarithmic ? Axis::logarithmic(values, rows) : Axis::linear(values, rows, 5);
    left_ = widest_mark(y_, chart.unit) + 12;
    double label = 0;
    for (const ChartLine& line : chart.lines) label = std::max(label, text_width(line.label, chart_text_size) + 18);
    right_ = width - std::max(14.0, std::min(label, 0.26 * width));
    last_ = 1;
    for (const ChartPoint& point : chart.points) last_ = std::max(last_, point.x);
  }

  std::string svg() {
    draw_axes();
    draw_lines();
    if (chart_.joins_kept) draw_steps();
    for (const ChartPoint& point : chart_.points) draw_point(point);
    draw_figures();
    draw_legend();
    return drawing_.svg(chart_.title);
  }

 private:
  [[nodiscard]] double x_at(double x) const {
    const double first = chart_.points.empty() ? 0 : std::min(chart_.points.front().x, 1.0);
    const double inner = 18;
    return left_ + inner + (x - first) / std::max(last_ - first, 1.0) * (right_ - left_ - 2 * inner);
  }

  void draw_axes() {
    drawing_.text(2, 14, chart_.y_label, {.css = "label strong"});
    for (const double mark : y_.marks()) {
      drawing_.line(left_, y_.at(mark), right_, y_.at(mark), mark == 0 ? "axis" : "grid");
      drawing_.text(left_ - 6, y_.at(mark) + 4, figure_text(mark) + chart_.unit, {.anchor = Anchor::end});
    }
    const double foot = drawing_.height() - bottom;
    drawing_.line(left_, foot, right_, foot, "axis");
    const double room = (right_ - left_) / std::max(last_, 1.0);
    const int stride = std::max(1, static_cast<int>(std::ceil(26 / room)));
    for (const ChartPoint& point : chart_.points) {
      if (static_cast<int>(point.x) % stride != 0 && stride > 1) continue;
      drawing_.text(x_at(point.x), foot + 16, point.x == 0 ? "start" : fmt::format("{:g}", point.x),
                    {.anchor = Anchor::middle});
    }
    drawing_.text((left_ + right_) / 2, drawing_.height() - 6, chart_.x_label, {.anchor = Anchor::middle});
  }

  // Thresholds; labels that would touch the one above move down.
  void draw_lines() {
    std::vector<ChartLine> lines = chart_.lines;
    std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.value > b.value; });
    double above = -100;
    for (const ChartLine& line : lines) {
      drawing_.line(left_, y_.at(line.value), right_, y_.at(line.value), "threshold");
      above = std::max(above + chart_text_size + 2, y_.at(line.value) + 4);
      drawing_.text(right_ + 6, above, fitted(line.label, chart_text_size, drawing_.width() - right_ - 8));
    }
  }

  void draw_steps() {
    std::string d;
    for (const ChartPoint& point : chart_.points) {
      if ((point.mark != Mark::kept && point.x != 0) || !point.value) continue;
      d += d.empty() ? fmt::format("M{:.1f} {:.1f}", x_at(point.x), y_.at(*point.value))
                     : fmt::format("H{:.1f}V{:.1f}", x_at(point.x), y_.at(*point.value));
    }
    if (!d.empty()) drawing_.path(d + fmt::format("H{:.1f}", x_at(last_)), "step " + chart_.evidence);
  }

  void draw_point(const ChartPoint& point) {
    const double x = x_at(point.x);
    if (!point.value) {
      draw_mark(drawing_, x, drawing_.height() - bottom - 9, point.mark, chart_.evidence, point.hint);
      return;
    }
    // A bound that is not known is open: no cap.
    if (point.lower || point.upper) {
      const double low = point.lower ? y_.at(*point.lower) : drawing_.height() - bottom;
      const double high = point.upper ? y_.at(*point.upper) : top;
      const std::string css = "whisker " + chart_.evidence;
      drawing_.line(x, low, x, high, css);
      if (point.lower) drawing_.line(x - 5, low, x + 5, low, css);
      if (point.upper) drawing_.line(x - 5, high, x + 5, high, css);
    }
    draw_mark(drawing_, x, y_.at(*point.value), point.mark, chart_.evidence, point.hint);
  }

  // At the first and the last figure that counts.
  void draw_figures() {
    const ChartPoint* first = nullptr;
    const ChartPoint* last = nullptr;
    for (const ChartPoint& point : chart_.points) {
      if (!point.value || (chart_.joins_kept && point.mark != Mark::kept && point.x != 0)) continue;
      if (first == nullptr) first = &point;
      last = &point;
    }
    if (first == nullptr) return;
    write_figure(*first, false);
    if (last != first) write_figure(*last, chart_.joins_kept && comes_down_to(*last));
  }

  // The step before it is higher.
  [[nodiscard]] bool comes_down_to(const ChartPoint& last) const {
    double before = *last.value;
    for (const ChartPoint& point : chart_.points) {
      if (&point == &last) break;
      if (point.value && (point.mark == Mark::kept || point.x == 0)) before = *point.value;
    }
    return before > *last.value;
  }

  // Where the line is not, and below only where there is room.
  void write_figure(const ChartPoint& point, bool wants_below) {
    const double highest = point.upper ? y_.at(*point.upper) : y_.at(*point.value);
    const double below = y_.at(*point.value) + 20;
    const bool has_marks_below =
        std::any_of(chart_.points.begin(), chart_.points.end(), [](const ChartPoint& one) { return !one.value; });
    const bool is_below = wants_below && below < drawing_.height() - bottom - (has_marks_below ? 18 : 2);
    const std::string text = figure_text(*point.value) + chart_.unit;
    const double half = text_width(text, 13) / 2;
    const double beside = wants_below && !is_below ? half + 6 : 0;  // the step that comes down stands there
    drawing_.text(std::clamp(x_at(point.x) + beside, left_ + half + 2, right_ - half),
                  is_below ? below : std::max(highest - 10, top - 4), text,
                  {.css = "value halo", .anchor = Anchor::middle, .size = 13});
  }

  void draw_legend() {
    double x = 2;
    for (const Mark mark : {Mark::kept, Mark::left, Mark::refused, Mark::open}) {
      const bool is_there = std::any_of(chart_.points.begin(), chart_.points.end(),
                                        [&](const ChartPoint& point) { return point.mark == mark && point.x != 0; });
      if (!is_there) continue;
      draw_mark(drawing_, x + 5, 26, mark, chart_.evidence);
      drawing_.text(x + 14, 30, name_of(mark));
      x += 26 + text_width(name_of(mark), chart_text_size);
    }
  }

  const StepChart& chart_;
  Drawing drawing_;
  Axis y_{};
  double left_ = 0, right_ = 0, last_ = 1;
};

}  // namespace

std::string step_chart(const StepChart& chart, double width) {
  return StepPlot(chart, width).svg();
}

}  // namespace flashmoe::workflow
