// A compiler's refusal as a diagnostic: file, line and the compiler's own words.
#pragma once

#include <string>

#include "support/process.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// `command` is run once more when its compiler can answer in JSON; nothing is read from prose.
[[nodiscard]] Diagnostic explain_compile_error(const Command& command, const Finished& ran, const std::string& source,
                                               const std::string& directory);

// At most `lines` lines, with a note how many were left out.
[[nodiscard]] std::string shortened(const std::string& text, std::size_t lines);

}  // namespace flashmoe::workflow
