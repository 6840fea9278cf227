// cudadent worker: hidden; the process in which a kernel runs.
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "workflow/runner/worker.hpp"

namespace flashmoe::tools {

void add_worker(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("worker", "Runs a kernel for another cudadent process");
  command->group("");  // not for people
  command->callback([&exit_code] { exit_code = workflow::worker_main(); });
}

}  // namespace flashmoe::tools
