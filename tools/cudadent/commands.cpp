#include "commands.hpp"

#include <CLI/CLI.hpp>

namespace flashmoe::tools {

void add_all_commands(CLI::App& /*app*/, int& /*exit_code*/) {}

}  // namespace flashmoe::tools
