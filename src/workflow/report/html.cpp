#include "workflow/report/html.hpp"

#include <fmt/format.h>

#include "support/text.hpp"
#include "workflow/report/markup.hpp"
#include "workflow/verdict/evidence.hpp"

namespace flashmoe::workflow {
namespace {

constexpr double wide = 930, narrow = 330;

// A word as a class: letters and '_' alone.
std::string css_of(std::string_view word) {
  std::string css;
  for (const char c : word) {
    if (c == ' ') css += '_';
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_') css += c;
  }
  return css;
}

// In a narrow column an arrow would break after its hyphen.
std::string with_whole_arrows(std::string_view text) {
  return replaced_all(markup_text(text), "-&gt;", "<span class=\"arrow\">-&gt;</span>");
}

}  // namespace

Cell text_cell(std::string_view text) {
  return {.html = "<span>" + with_whole_arrows(text) + "</span>"};
}

Cell code_cell(std::string_view text) {
  return {.html = "<code>" + markup_text(text) + "</code>"};
}

std::string figure(double exact, std::string_view shown) {
  return fmt::format("<data value=\"{}\">{}</data>", exact, with_whole_arrows(shown));
}

Cell number_cell(double exact, std::string_view shown) {
  return {.html = figure(exact, shown), .is_number = true};
}

Cell number_cell() {
  return {.html = "<span>-</span>", .is_number = true};
}

Cell word_cell(std::string_view word) {
  return {.html = fmt::format("<span class=\"fate {}\">{}</span>", css_of(word), markup_text(word))};
}

std::string table_html(const std::vector<std::string>& heads, const std::vector<TableRow>& rows) {
  const auto is_number = [&](std::size_t column) {
    for (const TableRow& row : rows) {
      if (column < row.size() && row[column].is_number) return true;
    }
    return false;
  };
  std::string html = "<table class=\"rows\"><thead><tr>";
  for (std::size_t i = 0; i < heads.size(); ++i)
    html += fmt::format("<th{}>{}</th>", is_number(i) ? " class=\"n\"" : "", markup_text(heads[i]));
  html += "</tr></thead><tbody>\n";
  for (const TableRow& row : rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      html += fmt::format("<td{} data-label=\"{}\">{}</td>", row[i].is_number ? " class=\"n\"" : "",
                          i < heads.size() ? markup_text(heads[i]) : "", row[i].html);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

std::string list_html(const std::vector<std::string>& sentences) {
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences) html += "<li>" + markup_text(sentence) + "</li>\n";
  return html + "</ul>\n";
}

std::string paragraph(std::string_view text, std::string_view css) {
  return fmt::format("<p{}>{}</p>\n", css.empty() ? "" : fmt::format(" class=\"{}\"", css), markup_text(text));
}

std::string kind_of(const std::string& evidence) {
  for (const char* kind : {measured_evidence, virtual_evidence, predicted_evidence, rehearsal_evidence}) {
    if (evidence == kind || evidence.starts_with(std::string(kind) + " (")) return kind;
  }
  return no_evidence;
}

std::string badge(const std::string& evidence) {
  return fmt::format("<span class=\"badge {}\">{}</span>", kind_of(evidence), markup_text(evidence));
}

std::string chart_html(const std::function<std::string(double width)>& draw) {
  return "<div class=\"wide\">" + draw(wide) + "</div><div class=\"narrow\">" + draw(narrow) + "</div>\n";
}

std::string section_html(const std::string& id, const std::string& title, const std::string& body) {
  return fmt::format("<section id=\"{}\"><h2>{}</h2>\n{}</section>\n", id, markup_text(title), body);
}

}  // namespace flashmoe::workflow
