#include "commands.hpp"

#include <CLI/CLI.hpp>

namespace flashmoe::tools {

// In the order in which a newcomer meets them: --help lists them so.
void add_all_commands(CLI::App& app, int& exit_code) {
  add_doctor(app, exit_code);
  add_new(app, exit_code);
  add_gate(app, exit_code);
  add_profile(app, exit_code);
  add_run(app, exit_code);
  add_compare(app, exit_code);
  add_journal(app, exit_code);
  add_reproduce(app, exit_code);
  add_selftest(app, exit_code);
  add_schema(app, exit_code);
  add_completion(app, exit_code);
  add_worker(app, exit_code);
}

}  // namespace flashmoe::tools
