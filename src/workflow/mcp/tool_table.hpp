// The tools that a client sees: each is a command of cudadent, some of its options, and what it is good for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/json.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow::mcp {

enum class ArgumentKind {
  text,
  integer,
  number,
  directory,  // one inside the root
  version     // a commit, or a directory inside the root
};

struct ToolArgument {
  const char* name;
  const char* flag;  // nullptr: the command's positional
  ArgumentKind kind;
  const char* about;
  double least = 0;  // of a number
  double most = 0;
  std::vector<std::string> choices{};  // the only texts that are allowed
};

struct Tool {
  const char* name;  // and the command's
  const char* title;
  const char* about;
  bool measures;  // it builds and runs kernels: one such process at a time, or they would disturb each other
  bool writes;    // a record, a worktree, a commit of its own
  // What it prints whole is short enough, or is kept nowhere else; the others are recorded whole.
  bool asks_for_all;
  std::vector<ToolArgument> arguments;
};

[[nodiscard]] const std::vector<Tool>& all_tools();
[[nodiscard]] const Tool* tool_named(std::string_view name);  // nullptr: none

// As tools/list has it: name, title, description, both schemas, hints.
[[nodiscard]] Json listing_of(const Tool& tool);

struct Asked {
  std::string job{};  // to wait for; empty: a new one
  bool stop = false;  // and to end it
  std::string project{};
  std::vector<std::string> command_line{};  // without the program
};

// `root` is canonical. A diagnostic says which argument is wrong and what is allowed.
[[nodiscard]] Result<Asked> asked_of(const Tool& tool, const Json& arguments, const std::string& root);

// A directory below `root`, or the root itself; canonical.
[[nodiscard]] Result<std::string> inside_root(const std::string& root, const std::string& path);

}  // namespace flashmoe::workflow::mcp
