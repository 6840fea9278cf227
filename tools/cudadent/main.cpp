// cudadent: flags -> workflow -> exit code. Every command is a function in a file of its own.
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "support/process.hpp"

int main(int argc, char** argv) {
  using namespace flashmoe::tools;
  flashmoe::install_interrupt_handler();
  CLI::App app{"The gated workflow for kernels: environment, build, correctness, performance, compare.", "cudadent"};
  app.require_subcommand(1);
  int exit_code = 0;
  add_all_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return exit_code;
}
