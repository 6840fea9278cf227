// How every command answers: JSON for programs where --json asks for it, else a screen for people that ends in the
// answer and the next command.
#pragma once

#include <string>

#include "command.hpp"
#include "support/result.hpp"
#include "workflow/output/answer.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::tools {

// The text behind --json: nothing, "full" or "short".
struct JsonFlag {
  std::string text{};
  explicit operator bool() const { return !text.empty(); }
};

// The option that all commands have.
[[nodiscard]] Option json_option(JsonFlag& flag, const std::string& about);

[[nodiscard]] workflow::Answer answer_of(const std::string& command, const JsonFlag& flag, int exit_code,
                                         const std::string& code, const std::string& next);

// A command that cannot do what it was asked: told on stderr, and on stdout where JSON was asked for. Returns the exit
// code of the problem's kind, or `otherwise` when it is not 0.
[[nodiscard]] int fail(const std::string& command, const JsonFlag& flag, const Diagnostic& problem, int otherwise = 0);

// What was typed, as a shell reads it: the next command where a file wants an edit first, or where it was interrupted.
void remember_command_line(int argc, char** argv);
[[nodiscard]] const std::string& same_command_again();

// The last line of a screen, bold on a terminal: "holds; next: cudadent compare".
[[nodiscard]] std::string last_line(const std::string& answer, const std::string& next);

}  // namespace flashmoe::tools
