// From the words of a command line to the command that runs.
#pragma once

#include <string>
#include <vector>

#include "command.hpp"

namespace flashmoe::tools {

struct Program {
  std::string name;
  std::string about;
  std::string manual;
  std::string version;
  std::string bare;  // the command that runs when none is named
};

// Parses, and runs the command that was named. Returns its exit code; that of usage, with an explanation on stderr and,
// where JSON is asked for, on stdout, when the words are no command line.
[[nodiscard]] int run_command_line(const Program& program, const std::vector<Command>& commands, int argc, char** argv);

}  // namespace flashmoe::tools
