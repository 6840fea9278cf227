// What a comparison comes to, in the words that all commands share.
#pragma once

#include <string>

#include "workflow/statistics/comparison.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// KEEP holds, REVERT and a candidate that failed do not; a base that failed says nothing; all else is not decided.
[[nodiscard]] Outcome outcome_of(const Comparison& comparison);
// Why it does not hold; empty for KEEP.
[[nodiscard]] std::string code_of(const Comparison& comparison);

}  // namespace flashmoe::workflow
