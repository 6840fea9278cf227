// Values on a line of pixels, and where its marks stand.
#pragma once

#include <string>
#include <vector>

namespace flashmoe::workflow {

struct Span {
  double from = 0, to = 0;
};

class Axis {
 public:
  // Widened to round marks, about `marks` of them.
  static Axis linear(Span values, Span pixels, int marks);
  // Widened to 1, 2 or 5 times a power of ten; values above 0.
  static Axis logarithmic(Span values, Span pixels);

  [[nodiscard]] double at(double value) const;
  [[nodiscard]] const std::vector<double>& marks() const { return marks_; }
  [[nodiscard]] Span values() const { return values_; }

 private:
  Span values_{}, pixels_{};
  bool is_logarithmic_ = false;
  std::vector<double> marks_{};
};

// "0.5", "12.3", "4.56k", "7.8M": three digits that count.
[[nodiscard]] std::string figure_text(double value);

}  // namespace flashmoe::workflow
