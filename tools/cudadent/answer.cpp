#include "answer.hpp"

#include <iostream>

#include "support/progress.hpp"
#include "support/text.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

std::string typed_command;

std::string next_of(const std::string& command, const workflow::ProblemCode& row) {
  using namespace workflow::codes;
  const std::string code = row.code;
  if (code == usage_command_line && !command.empty()) return "cudadent " + command + " --help";
  const bool wants_an_edit =
      code == project_not_toml || code == project_key || code == project_value || code == project_file;
  return wants_an_edit ? typed_command : row.next;
}

}  // namespace

void remember_command_line(int argc, char** argv) {
  typed_command = "cudadent";
  for (int i = 1; i < argc; ++i) typed_command += " " + shell_word(argv[i]);
}

const std::string& same_command_again() {
  return typed_command;
}

Option json_option(JsonFlag& flag, const std::string& about) {
  return {.names = "--json",
          .value = &flag.text,
          .about = about + "; --json=short: at most 4 kB",
          .choices = {"full", "short"},
          .bare = "full"};
}

workflow::Answer answer_of(const std::string& command, const JsonFlag& flag, int exit_code, const std::string& code,
                           const std::string& next) {
  return {.command = command, .exit_code = exit_code, .code = code, .next = next, .is_short = flag.text == "short"};
}

int fail(const std::string& command, const JsonFlag& flag, const Diagnostic& problem, int otherwise) {
  const workflow::ProblemCode& row = workflow::row_of(problem.code);
  const int code = otherwise != 0 ? otherwise : workflow::exit_code(problem);
  std::cerr << "cudadent" << (command.empty() ? "" : " ") << command << ": " << problem.to_string() << "\n";
  if (flag) {
    std::cout << workflow::error_json(answer_of(command, flag, code, row.code, next_of(command, row)), problem);
  }
  return code;
}

std::string last_line(const std::string& answer, const std::string& next) {
  return bold(answer + (next.empty() ? "" : "; next: " + next), may_colour(1)) + "\n";
}

}  // namespace flashmoe::tools
