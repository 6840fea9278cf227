// Samples on a line, and the roofline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "workflow/report/axis.hpp"
#include "workflow/report/charts.hpp"
#include "workflow/report/drawing.hpp"

namespace flashmoe::workflow {
namespace {

// Of sorted values, between neighbours.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void draw_samples(Drawing& drawing, const Axis& axis, std::vector<double> values, double y,
                  const std::string& evidence) {
  // Neighbours stand a little apart, always in the same way.
  for (std::size_t i = 0; i < values.size(); ++i)
    drawing.circle(axis.at(values[i]), y + 30 + static_cast<double>(i % 4) * 3, 2.8, "sample " + evidence);
  std::sort(values.begin(), values.end());
  const double low = axis.at(quantile(values, 0.25));
  const double high = axis.at(quantile(values, 0.75));
  const double median = axis.at(quantile(values, 0.5));
  drawing.rect(low, y + 19, high - low, 6, "half " + evidence);
  drawing.line(median, y + 16, median, y + 28, "median");
}

}  // namespace

std::string strip_chart(const StripChart& chart, double width) {
  constexpr double row = 48;
  Span span{chart.line.value_or(0), chart.line.value_or(0)};
  bool is_first = !chart.line;
  for (const ChartSamples& samples : chart.rows) {
    for (const double value : samples.values) {
      span = is_first ? Span{value, value} : Span{std::min(span.from, value), std::max(span.to, value)};
      is_first = false;
    }
  }
  const double foot = row * static_cast<double>(chart.rows.size()) + 4;
  Drawing drawing(width, foot + 40);
  const Axis axis = Axis::linear(span, {24, width - 24}, width < 500 ? 3 : 7);
  for (const double mark : axis.marks()) {
    drawing.line(axis.at(mark), 0, axis.at(mark), foot, "grid");
    drawing.text(axis.at(mark), foot + 16, fmt::format("{:.6g}", mark), {.anchor = Anchor::middle});
  }
  drawing.line(24, foot, width - 24, foot, "axis");
  if (chart.line) drawing.line(axis.at(*chart.line), 0, axis.at(*chart.line), foot, "threshold");
  drawing.text(width / 2, foot + 34, chart.x_label, {.anchor = Anchor::middle});
  double y = 0;
  for (const ChartSamples& samples : chart.rows) {
    drawing.text(4, y + 12, fitted(samples.label, chart_text_size, width - 8), {.css = "label halo"});
    if (!samples.values.empty()) draw_samples(drawing, axis, samples.values, y, chart.evidence);
    y += row;
  }
  return drawing.svg(chart.title);
}

namespace {

// TFLOP/s that a roof allows at an intensity.
double under(const Roof& memory, double flop_per_byte) {
  return memory.gb_per_s * flop_per_byte / 1000;
}

}  // namespace

std::string roofline_chart(const RooflineChart& chart, double width) {
  const auto memory = std::find_if(chart.roofs.begin(), chart.roofs.end(), [](const Roof& r) { return r.tflops == 0; });
  Span x{1e30, 0};
  Span y{1e30, 0};
  for (const RooflinePoint& point : chart.points) {
    x = {std::min(x.from, point.flop_per_byte), std::max(x.to, point.flop_per_byte)};
    y = {std::min(y.from, point.least_tflops), std::max(y.to, point.most_tflops)};
  }
  for (const Roof& roof : chart.roofs) {
    if (roof.tflops == 0) continue;
    const double knee = 1000 * roof.tflops / memory->gb_per_s;
    x = {std::min(x.from, knee / 3), std::max(x.to, knee * 2)};
    y = {std::min(y.from, roof.tflops), std::max(y.to, roof.tflops)};
  }
  const double height = std::clamp(width * 0.5, 280.0, 380.0);
  Drawing drawing(width, height);
  const double foot = height - 44;
  const Axis across = Axis::logarithmic({x.from, x.to}, {48, width - 14});
  const Axis up = Axis::logarithmic({y.from, y.to * 1.2}, {foot, 30});
  drawing.text(2, 14, "TFLOP/s", {.css = "label strong"});
  for (const double mark : up.marks()) {
    drawing.line(48, up.at(mark), width - 14, up.at(mark), "grid");
    drawing.text(42, up.at(mark) + 4, figure_text(mark), {.anchor = Anchor::end});
  }
  for (const double mark : across.marks()) {
    drawing.line(across.at(mark), 30, across.at(mark), foot, "grid");
    drawing.text(across.at(mark), foot + 16, figure_text(mark), {.anchor = Anchor::middle});
  }
  drawing.text(width / 2, height - 6, "FLOP per byte of DRAM", {.anchor = Anchor::middle});
  double highest = 0;
  for (const Roof& roof : chart.roofs) highest = std::max(highest, roof.tflops);
  // The memory's roof ends where it meets the highest, and begins inside of the plot.
  const double begin = std::max(across.values().from, 1000 * up.values().from / memory->gb_per_s);
  const double knee = 1000 * highest / memory->gb_per_s;
  drawing.line(across.at(begin), up.at(under(*memory, begin)), across.at(knee), up.at(highest), "roof");
  for (const Roof& roof : chart.roofs) {
    if (roof.tflops == 0) {
      const double along = std::pow(begin, 0.3) * std::pow(knee, 0.7);  // away from both ends, left of the line
      drawing.text(across.at(along) - 10, up.at(under(*memory, along)) - 4, roof.name,
                   {.css = "label halo", .anchor = Anchor::end});
      continue;
    }
    const double from = across.at(1000 * roof.tflops / memory->gb_per_s);
    drawing.line(from, up.at(roof.tflops), width - 14, up.at(roof.tflops), "roof");
    drawing.text(width - 16, up.at(roof.tflops) - 6, roof.name, {.css = "label halo", .anchor = Anchor::end});
  }
  for (const RooflinePoint& point : chart.points) {
    const double at = across.at(point.flop_per_byte);
    drawing.line(at, up.at(point.least_tflops), at, up.at(point.most_tflops), "whisker predicted");
    drawing.circle(
        at, up.at(point.tflops), 5, "dot predicted",
        fmt::format("{}: {:.3g} TFLOP/s at {:.3g} FLOP per byte", point.name, point.tflops, point.flop_per_byte));
    const bool is_right = at > width / 2;
    drawing.text(is_right ? at - 10 : at + 10, up.at(point.tflops) + 4, point.name,
                 {.css = "value halo", .anchor = is_right ? Anchor::end : Anchor::start});
  }
  return drawing.svg(chart.title);
}

}  // namespace flashmoe::workflow
