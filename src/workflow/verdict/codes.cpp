#include "workflow/verdict/codes.hpp"

#include <algorithm>
#include <array>

namespace flashmoe::workflow {
namespace {

constexpr std::array rows{
#define CUDADENT_CODE(name, code, exit, about, next) ProblemCode{code, ExitCode::exit, about, next},
#include "workflow/verdict/codes.def"
#undef CUDADENT_CODE
};

}  // namespace

std::span<const ProblemCode> all_codes() {
  return rows;
}

const ProblemCode& row_of(std::string_view code) {
  const auto named = [](std::string_view wanted) {
    return std::find_if(rows.begin(), rows.end(), [&](const ProblemCode& row) { return wanted == row.code; });
  };
  const auto* found = named(code);
  return found != rows.end() ? *found : *named(codes::could_not_run);
}

int exit_code(const Diagnostic& problem) {
  return static_cast<int>(row_of(problem.code).exit);
}

}  // namespace flashmoe::workflow
