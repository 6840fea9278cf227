// A small writer of SVG: shapes by class, so that the page or the picture around them decides about colours.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe::workflow {

enum class Anchor { start, middle, end };

struct TextStyle {
  std::string_view css = "label";  // class
  Anchor anchor = Anchor::start;
  double size = 12;  // px
};

class Drawing {
 public:
  Drawing(double width, double height) : width_(width), height_(height) {}

  void line(double x1, double y1, double x2, double y2, std::string_view css);
  // `hint`: shown when one points at it.
  void rect(double x, double y, double width, double height, std::string_view css, const std::string& hint = "");
  void circle(double x, double y, double radius, std::string_view css, const std::string& hint = "");
  void path(const std::string& d, std::string_view css);
  void text(double x, double y, const std::string& text, const TextStyle& style = {});

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  // The whole element. `style`: of a picture that stands alone; on a page the page has it.
  [[nodiscard]] std::string svg(const std::string& title, std::string_view style = "") const;

 private:
  double width_, height_;
  std::string body_{};
};

// About how wide a text of that size is drawn; fonts differ.
[[nodiscard]] double text_width(std::string_view text, double size);
// As much of it as has room.
[[nodiscard]] std::string fitted(std::string_view text, double size, double room);

}  // namespace flashmoe::workflow
