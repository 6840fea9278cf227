// Words of others (support/foreign_text.hpp) inside of an answer.
#pragma once

#include <cstddef>

#include "support/json.hpp"

namespace flashmoe::workflow::mcp {

// Every text inside made visible.
void make_visible(Json& json, std::size_t most_bytes_each);

// Every text inside that is more than a word is quoted, but those that the tool says in words of its own.
void quote_sentences(Json& json);

}  // namespace flashmoe::workflow::mcp
