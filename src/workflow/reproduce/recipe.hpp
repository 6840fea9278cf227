// The command line that makes a record again. A record is a line of a file, and files are written by many: what runs is
// one of cudadent's own verbs, with options that are known and values that can be nothing but what they say.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct Record;

// Without the program. Every option of the original but its note, which is no part of what ran.
[[nodiscard]] Result<std::vector<std::string>> recipe_of(const Record& record);

[[nodiscard]] Result<Done> check_recipe(const std::vector<std::string>& argv);
// 40 hex digits.
[[nodiscard]] bool is_commit(const std::string& text);

}  // namespace flashmoe::workflow
