// A stable code for every kind of problem, for scripts to act on. The table is codes.def.
#pragma once

#include <span>
#include <string_view>

#include "support/result.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

namespace codes {
#define CUDADENT_CODE(name, code, exit, about, next) inline constexpr const char* name = code;
#include "workflow/verdict/codes.def"
#undef CUDADENT_CODE
}  // namespace codes

struct ProblemCode {
  const char* code;
  ExitCode exit;      // of a command that ends in it; holds: it alone changes no verdict
  const char* about;  // what it means, in a line
  const char* next;   // what to type where nobody knows better
};

[[nodiscard]] std::span<const ProblemCode> all_codes();
// A code that is in no row, such as none at all, is what keeps a command from running for any other reason.
[[nodiscard]] const ProblemCode& row_of(std::string_view code);
// Of a command that could not do what it was asked.
[[nodiscard]] int exit_code(const Diagnostic& problem);

}  // namespace flashmoe::workflow
