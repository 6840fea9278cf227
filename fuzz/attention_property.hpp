// What holds for every call of the library, whatever the bytes: an error that helps, or the oracle's answer.
#pragma once

#include <string>
#include <vector>

#include "fuzzed_problem.hpp"
#include "support/attention_case.hpp"
#include "support/library_run.hpp"

namespace flashmoe::fuzz {

// Ends the process with a finding.
[[noreturn]] void fail(const std::string& what, const std::string& problem);

// One for every ISA of the machine.
const std::vector<testing::Context>& contexts();

// An error names its argument and says something, inside its buffers.
void check_error(fms_status status, const fms_error& error);

testing::AttentionCase make_case(const FuzzedProblem& fuzzed);

// The oracle's answer, and nothing else written.
void check_answer(const testing::AttentionCase& one);

}  // namespace flashmoe::fuzz
