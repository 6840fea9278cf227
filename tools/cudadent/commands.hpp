// The commands. Each add_* declares one subcommand's flags and sets `exit_code` when it runs:
// 0 holds, 1 does not, 2 usage, 3 inconclusive or degraded.
#pragma once

namespace CLI {
class App;
}

namespace flashmoe::tools {

void add_all_commands(CLI::App& app, int& exit_code);

}  // namespace flashmoe::tools
