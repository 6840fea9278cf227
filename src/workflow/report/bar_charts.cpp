// Bars: of values from 0, and of parts of a whole.
#include <fmt/format.h>

#include <algorithm>

#include "workflow/report/axis.hpp"
#include "workflow/report/charts.hpp"
#include "workflow/report/drawing.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t colours = 8;  // of parts, in the style sheet: part0 ...

bool is_narrow(double width) {
  return width < 500;
}

}  // namespace

std::string bar_chart(const BarChart& chart, double width) {
  // On a phone labels stand above their bars.
  const bool above = is_narrow(width);
  const double row = above ? 40 : 26;
  double most = chart.most;
  double widest_text = 0;
  double widest_label = 0;
  for (const ChartBar& bar : chart.bars) {
    if (chart.most == 0) most = std::max(most, bar.value);
    widest_text = std::max(widest_text, text_width(bar.text, chart_text_size));
    widest_label = std::max(widest_label, text_width(bar.label, chart_text_size));
  }
  const double left = above ? 4 : std::min(widest_label + 14, 0.45 * width);
  const double full = width - left - widest_text - 14;
  Drawing drawing(width, row * static_cast<double>(chart.bars.size()) + (chart.x_label.empty() ? 6 : 26));
  double y = 2;
  for (const ChartBar& bar : chart.bars) {
    const double bar_y = above ? y + 18 : y + 4;
    const double length = most > 0 ? bar.value / most * full : 0;
    if (above) {
      drawing.text(left, y + 13, fitted(bar.label, chart_text_size, width - 8));
    } else {
      drawing.text(left - 8, y + 17, fitted(bar.label, chart_text_size, left - 12), {.anchor = Anchor::end});
    }
    drawing.rect(left, bar_y, length, 16, "bar " + (bar.css.empty() ? chart.evidence : bar.css),
                 bar.label + ": " + bar.text);
    drawing.text(left + length + 6, bar_y + 13, bar.text, {.css = "value"});
    y += row;
  }
  drawing.line(left, 0, left, y, "axis");
  if (!chart.x_label.empty()) drawing.text(left, y + 17, chart.x_label);
  return drawing.svg(chart.title);
}

namespace {

// The parts that are shown by name, the largest anywhere first.
std::vector<std::string> named_parts(const StackChart& chart) {
  std::vector<std::pair<std::string, double>> largest;
  for (const auto& [label, parts] : chart.rows) {
    for (const ChartPart& part : parts) {
      const auto known =
          std::find_if(largest.begin(), largest.end(), [&](const auto& one) { return one.first == part.name; });
      if (known == largest.end()) {
        largest.emplace_back(part.name, part.share);
      } else {
        known->second = std::max(known->second, part.share);
      }
    }
  }
  std::stable_sort(largest.begin(), largest.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> names;
  for (const auto& [name, share] : largest) {
    if (share >= 0.01 && names.size() + 1 < colours) names.push_back(name);
  }
  return names;
}

double share_of(const std::vector<ChartPart>& parts, const std::string& name) {
  for (const ChartPart& part : parts) {
    if (part.name == name) return part.share;
  }
  return 0;
}

}  // namespace

std::string stack_chart(const StackChart& chart, double width) {
  const std::vector<std::string> names = named_parts(chart);
  constexpr double row = 48;
  // The legend below, as many to a line as have room.
  struct Entry {
    std::string text;
    std::size_t colour;
    double x, y;
  };
  std::vector<Entry> legend;
  double x = 4;
  double y = row * static_cast<double>(chart.rows.size()) + 12;
  const auto add_entry = [&](const std::string& text, std::size_t colour) {
    const double room = 22 + text_width(text, chart_text_size) + 14;
    if (x > 4 && x + room > width) {
      x = 4;
      y += 20;
    }
    legend.push_back({text, colour, x, y});
    x += room;
  };
  for (std::size_t i = 0; i < names.size(); ++i) add_entry(names[i], i);
  add_entry("other", colours - 1);
  Drawing drawing(width, y + 18);
  double row_y = 0;
  for (const auto& [label, parts] : chart.rows) {
    drawing.text(4, row_y + 14, fitted(label, chart_text_size, width - 8));
    double at = 4;
    double rest = 1;
    const auto draw = [&](const std::string& name, double share, std::size_t colour) {
      const double length = share * (width - 8);
      const std::string figure = fmt::format("{:.0f} %", 100 * share);
      drawing.rect(at, row_y + 20, length, 22, fmt::format("part{}", colour), fmt::format("{}: {}", name, figure));
      if (length > text_width(figure, 11) + 6)
        drawing.text(at + length / 2, row_y + 35, figure, {.css = "inside", .anchor = Anchor::middle, .size = 11});
      at += length;
    };
    for (std::size_t i = 0; i < names.size(); ++i) {
      const double share = share_of(parts, names[i]);
      draw(names[i], share, i);
      rest -= share;
    }
    if (rest > 1e-6) draw("other", rest, colours - 1);
    row_y += row;
  }
  for (const Entry& entry : legend) {
    drawing.rect(entry.x, entry.y, 12, 12, fmt::format("part{}", entry.colour));
    drawing.text(entry.x + 18, entry.y + 10, entry.text);
  }
  return drawing.svg(chart.title);
}

}  // namespace flashmoe::workflow
