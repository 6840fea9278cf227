// cudadent: flags -> workflow -> exit code. Every command is a function in a file of its own.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "manual.hpp"
#include "support/process.hpp"
#include "workflow/project/suggest.hpp"

namespace {

constexpr const char* about =
    "A kernel project is a directory with a cudadent.toml: a kernel, a reference that says what is right, a baseline\n"
    "to beat, and workloads. The gates ask in order whether the machine is well, whether it builds, whether it is\n"
    "correct and whether it is fast; none is skipped, and each says what to do when it does not hold. Data goes to\n"
    "stdout, progress to stderr; every command has --json and --help.\n\n"
    "Examples:\n"
    "  mkdir my_kernel && cd my_kernel\n"
    "  cudadent new        a project that works, to begin with\n"
    "  cudadent gate       environment, build, correctness, performance: a verdict\n"
    "  cudadent compare    is the working tree faster than the last commit?";

// A word that is no command or flag, with the nearest one that is.
void explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool is_no_command = !words.empty() && !words[0].starts_with("-") &&
                             std::none_of(commands.begin(), commands.end(),
                                          [&](const CLI::App* command) { return command->get_name() == words[0]; });
  if (is_no_command) {
    std::fprintf(stderr, "cudadent: there is no command '%s'\n", words[0].c_str());
  } else {
    std::fprintf(stderr, "cudadent: %s\n", error.what());
  }
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    std::vector<std::string> known;
    for (const CLI::App* command : at->get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); })) {
      known.push_back(command->get_name());
      if (command->get_name() == word) at = command;
    }
    for (const CLI::Option* option : flashmoe::tools::options_of(*at)) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::string flag = word.substr(0, word.find('='));
    const std::string near = flashmoe::workflow::nearest(flag, known);
    if (!near.empty() && near != flag) std::fprintf(stderr, "  did you mean '%s'?\n", near.c_str());
  }
  std::fprintf(stderr, "  see: cudadent %s%s--help\n", at == &app ? "" : at->get_name().c_str(), at == &app ? "" : " ");
}

int run(int argc, char** argv) {
  using namespace flashmoe::tools;
  CLI::App app{"The gated workflow for kernels: is it sound, does it build, is it right, is it fast?", "cudadent"};
  app.formatter(manual_formatter());
  app.footer(about);
  app.set_version_flag("--version", "cudadent " CUDADENT_VERSION, "Print the version");
  app.require_subcommand(1);
  int exit_code = 0;
  add_all_commands(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    explain(app, error, {argv + 1, argv + argc});
    return 2;
  }
  return exit_code;
}

// Output that was lost (a full disk, a closed pipe) must not look like success.
int after_flush(int exit_code) {
  std::cout.flush();
  const bool lost = !std::cout || std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost) return exit_code;
  std::fprintf(stderr, "cudadent: the output could not be written: %s\n", std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  flashmoe::install_interrupt_handler();
  try {
    return after_flush(run(argc, argv));
  } catch (const std::exception& error) {  // memory, a full disk: what no command foresaw
    std::fprintf(stderr, "cudadent: %s\n", error.what());
    return 1;
  }
}
