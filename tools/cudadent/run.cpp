// cudadent run: anybody's driver-API program on a virtual GPU.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/program.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::ProgramOptions options;
  std::vector<std::string> program;
  bool json = false;
};

// The program keeps its terminal, its input and its signals; only its environment differs.
int wait_for(const std::vector<std::string>& program, const std::vector<std::string>& environment) {
  const pid_t child = fork();
  if (child < 0) {
    std::cerr << "cudadent run: cannot start a process: " << std::strerror(errno) << "\n";
    return 1;
  }
  if (child == 0) {
    for (const std::string& setting : environment) {
      const std::size_t equals = setting.find('=');
      setenv(setting.substr(0, equals).c_str(), setting.c_str() + equals + 1, 1);
    }
    std::vector<char*> argv;
    for (const std::string& word : program) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    std::cerr << "cudadent run: " << program[0] << ": " << std::strerror(errno) << "\n";
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string counted(std::size_t count, const char* noun, const char* plural) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural);
}

int run(Flags flags) {
  const workflow::ReportFile own_report;
  if (flags.options.report.empty()) flags.options.report = own_report.path();
  const auto environment = workflow::program_environment(flags.options);
  if (!environment) {
    std::cerr << "cudadent run: " << environment.error().to_string() << "\n";
    return 2;
  }
  const int code = wait_for(flags.program, *environment);
  workflow::GateResult found;
  found.outcome = workflow::Outcome::holds;
  workflow::add_virtual_findings(flags.options.report, found);
  auto launches = workflow::read_launches(flags.options.report);
  std::erase_if(launches, [](const Json& entry) { return !entry.contains("kernel"); });  // what the end of the run said
  if (flags.json) {
    std::cout << Json{{"device", flags.options.device}, {"exit_code", code}, {"launches", launches}}.dump(
                     2, ' ', false, Json::error_handler_t::replace)
              << "\n";
  } else {
    std::cerr << fmt::format("cudadent run: {} on {}, {}, the program ended with {}\n",
                             counted(launches.size(), "launch", "es"), flags.options.device,
                             counted(found.findings.size(), "finding", "s"), code);
  }
  return code != 0 ? code : found.findings.empty() ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "Any program that uses the CUDA driver API, on a virtual GPU");
  command->footer(
      "The program finds our driver as libcuda.so.1 and runs unchanged. Its kernels must be PTX, or cubins built with\n"
      "-lineinfo. Programs on the CUDA runtime API (<<<>>>, cudart) ask the driver for undocumented tables and get an\n"
      "error that says so.\n"
      "Exit codes: the program's own; 1 when it ended with 0 but a check found something.\n"
      "\n"
      "Examples:\n"
      "  cudadent run --device virtual:l4 -- python saxpy.py\n"
      "  cudadent run --device virtual:h100 --check none -- ./my_program --size 4096");
  command->add_option("--device", flags->options.device, "virtual:<gpu>")->capture_default_str();
  command
      ->add_option("--check", flags->options.checks,
                   "all, none, or a list of memcheck, initcheck, racecheck, synccheck")
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "Seed of the schedule; 0 is the natural order")
      ->capture_default_str();
  command->add_option("--report", flags->options.report, "File for findings and counters, one JSON object per launch");
  command->add_flag("--json", flags->json, "Launches with findings and counters, as JSON on stdout after the program");
  command->add_option("program", flags->program, "The program and its arguments, after --")->required();
  command->positionals_at_end();
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
