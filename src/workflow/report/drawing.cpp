#include "workflow/report/drawing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "workflow/report/markup.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double mean_character = 0.56;  // of a sans-serif font, in its size

const char* name_of(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

std::string closed(const char* element, const std::string& hint) {
  return hint.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", markup_text(hint), element);
}

}  // namespace

void Drawing::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2, y2,
                       css);
}

void Drawing::rect(double x, double y, double width, double height, std::string_view css, const std::string& hint) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"{}", x, y,
                       std::max(width, 0.0), std::max(height, 0.0), css, closed("rect", hint));
}

void Drawing::circle(double x, double y, double radius, std::string_view css, const std::string& hint) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" class=\"{}\"{}", x, y, radius, css,
                       closed("circle", hint));
}

void Drawing::path(const std::string& d, std::string_view css) {
  body_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", d, css);
}

void Drawing::text(double x, double y, const std::string& text, const TextStyle& style) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:g}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n",
                       x, y, style.size, name_of(style.anchor), style.css, markup_text(text));
}

std::string Drawing::svg(const std::string& title, std::string_view style) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:g} {:g}\" width=\"{:g}\" height=\"{:g}\" "
      "role=\"img\"><title>{}</title>\n{}{}</svg>\n",
      width_, height_, width_, height_, markup_text(title),
      style.empty() ? "" : fmt::format("<style>{}</style>\n", style), body_);
}

double text_width(std::string_view text, double size) {
  return mean_character * size * static_cast<double>(length_of(text));
}

std::string fitted(std::string_view text, double size, double room) {
  const double characters = room / (mean_character * size);
  return shortened(text, static_cast<std::size_t>(std::max(characters, 1.0)));
}

}  // namespace flashmoe::workflow
