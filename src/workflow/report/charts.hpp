// The charts of a report, as SVG. Each shows figures of one kind of evidence; widths are in pixels, so that a phone
// gets a chart of its own instead of a small one.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

inline constexpr double chart_text_size = 12;

// What became of a point's change.
enum class Mark { kept, left, refused, open, plain };

struct ChartPoint {
  double x = 0;
  std::optional<double> value{};  // unset: it came to no figure
  std::optional<double> lower{}, upper{};
  Mark mark = Mark::plain;
  std::string hint{};
};

struct ChartLine {
  double value = 0;
  std::string label{};
};

// Values over iterations; those that were kept are joined by steps.
struct StepChart {
  std::string title{};
  std::string y_label{}, x_label{};
  std::string evidence{};   // its kind: the colour
  std::string stands_on{};  // the evidence in full
  std::string unit{};       // behind figures
  bool logarithmic = false;
  bool joins_kept = false;
  std::vector<ChartPoint> points{};
  std::vector<ChartLine> lines{};  // thresholds
};
[[nodiscard]] std::string step_chart(const StepChart& chart, double width);

struct ChartBar {
  std::string label{};
  double value = 0;
  std::string text{};  // the figure with its unit
  std::string css{};   // empty: of the chart's evidence
};

// From 0.
struct BarChart {
  std::string title{};
  std::string x_label{};
  std::string evidence{};
  double most = 0;  // of the scale; 0: of the values
  std::vector<ChartBar> bars{};
};
[[nodiscard]] std::string bar_chart(const BarChart& chart, double width);

struct ChartPart {
  std::string name{};
  double share = 0;  // of the row
};

// Parts of a whole, a row each; what is under a hundredth everywhere is one part, "other".
struct StackChart {
  std::string title{};
  std::vector<std::pair<std::string, std::vector<ChartPart>>> rows{};
};
[[nodiscard]] std::string stack_chart(const StackChart& chart, double width);

struct ChartSamples {
  std::string label{};
  std::vector<double> values{};
};

// Every sample a dot, above it the middle half and the median.
struct StripChart {
  std::string title{};
  std::string x_label{};
  std::string evidence{};
  std::optional<double> line{};  // a value to stand out, such as equality
  std::vector<ChartSamples> rows{};
};
[[nodiscard]] std::string strip_chart(const StripChart& chart, double width);

struct Roof {
  std::string name{};
  double tflops = 0;  // 0: it is the memory's
  double gb_per_s = 0;
};

struct RooflinePoint {
  std::string name{};
  double flop_per_byte = 0;
  double tflops = 0, least_tflops = 0, most_tflops = 0;
};

struct RooflineChart {
  std::string title{};
  std::vector<Roof> roofs{};  // one of memory, at least one of arithmetic
  std::vector<RooflinePoint> points{};
};
[[nodiscard]] std::string roofline_chart(const RooflineChart& chart, double width);

}  // namespace flashmoe::workflow
