// Pieces of a page: tables whose cells carry the exact figure beside the one that is shown.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace flashmoe::workflow {

// A cell: HTML that is escaped already.
struct Cell {
  std::string html{};
  bool is_number = false;
};
[[nodiscard]] Cell text_cell(std::string_view text);
[[nodiscard]] Cell code_cell(std::string_view text);
// <data value="exact">shown</data>
[[nodiscard]] std::string figure(double exact, std::string_view shown);
[[nodiscard]] Cell number_cell(double exact, std::string_view shown);
[[nodiscard]] Cell number_cell();  // there is none
// `word` in the colour of that class.
[[nodiscard]] Cell word_cell(std::string_view word);

using TableRow = std::vector<Cell>;
// On a phone each row is a block of its own, its cells named.
[[nodiscard]] std::string table_html(const std::vector<std::string>& heads, const std::vector<TableRow>& rows);
[[nodiscard]] std::string list_html(const std::vector<std::string>& sentences);
[[nodiscard]] std::string paragraph(std::string_view text, std::string_view css = "");
// "measured (cpu: Xeon)" in the colour of its kind.
[[nodiscard]] std::string badge(const std::string& evidence);
// The kind at its beginning, if it is one; "none".
[[nodiscard]] std::string kind_of(const std::string& evidence);
// A chart for wide screens and one for phones.
[[nodiscard]] std::string chart_html(const std::function<std::string(double width)>& draw);
[[nodiscard]] std::string section_html(const std::string& id, const std::string& title, const std::string& body);

}  // namespace flashmoe::workflow
