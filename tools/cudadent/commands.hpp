// The commands. Each add_* declares one subcommand's flags and sets `exit_code` when it runs:
// 0 holds, 1 does not, 2 usage, 3 inconclusive or degraded. The footer becomes the manual page (manual.hpp).
#pragma once

namespace CLI {
class App;
}

namespace flashmoe::tools {

void add_all_commands(CLI::App& app, int& exit_code);

void add_new(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);
void add_gate(CLI::App& app, int& exit_code);
void add_profile(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_worker(CLI::App& app, int& exit_code);
void add_compare(CLI::App& app, int& exit_code);
void add_journal(CLI::App& app, int& exit_code);
void add_reproduce(CLI::App& app, int& exit_code);
void add_selftest(CLI::App& app, int& exit_code);
void add_schema(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);

}  // namespace flashmoe::tools
