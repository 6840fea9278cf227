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

// A program's own failure comes first, then what the checks found; a run without a launch has shown nothing.
struct Verdict {
  const char* outcome;
  int exit_code;
};
Verdict verdict_of(int program_exit_code, std::size_t launches, std::size_t findings) {
  if (program_exit_code != 0) return {"program failed", program_exit_code};
  if (findings != 0) return {"findings", 1};
  if (launches == 0) return {"nothing ran", 3};
  return {"holds", 0};
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
  const Verdict verdict = verdict_of(code, launches.size(), found.findings.size());
  if (flags.json) {
    std::cout << Json{{"device", flags.options.device},
                      {"outcome", verdict.outcome},
                      {"exit_code", code},
                      {"findings", found.findings.size()},
                      {"launches", launches}}
                     .dump(2, ' ', false, Json::error_handler_t::replace)
              << "\n";
  } else {
    std::cerr << fmt::format("cudadent run: {} on {}, {}, the program ended with {}\n",
                             counted(launches.size(), "launch", "es"), flags.options.device,
                             counted(found.findings.size(), "finding", "s"), code);
    if (launches.empty())
      std::cerr << "cudadent run: NOTHING RAN on the virtual GPU, so nothing was checked. Does the program load "
                   "libcuda.so.1 by that name, and not the CUDA runtime? VGPU_LOG_CALLS=1 shows what it asks of the "
                   "driver.\n";
  }
  return verdict.exit_code;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("run", "Any program that uses the CUDA driver API, on a virtual GPU");
  command->footer(
      "The program finds our driver as libcuda.so.1 and runs unchanged. Its kernels must be PTX, or cubins built with\n"
      "-lineinfo. Programs on the CUDA runtime API (<<<>>>, cudart) ask the driver for undocumented tables and get an\n"
      "error that says so.\n"
      "Exit codes: the program's own when it is not 0; else 1 when a check found something, 3 when no kernel was\n"
      "launched, 0.\n"
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
