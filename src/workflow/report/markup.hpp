// Words of projects, kernels and records inside of HTML, SVG and Markdown: text, whatever they say.
#pragma once

#include <string>
#include <string_view>

namespace flashmoe::workflow {

// For HTML and XML, between tags and in quoted attributes. What is no UTF-8, moves a cursor, or turns the direction of
// writing (and so could show other words than it says) is a replacement character.
[[nodiscard]] std::string markup_text(std::string_view text);
// For Markdown, also in a cell of a table: no tag, link, image, code or emphasis comes of it.
[[nodiscard]] std::string markdown_text(std::string_view text);

// At most `most` characters; what is longer ends in an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);
// Characters, not bytes.
[[nodiscard]] std::size_t length_of(std::string_view text);

}  // namespace flashmoe::workflow
