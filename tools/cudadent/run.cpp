// cudadent run: anybody's driver-API program on a virtual GPU.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/output/output.hpp"

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
    argv.reserve(program.size() + 1);
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
  auto launches = workflow::read_launches(flags.options.report);
  const std::size_t findings = workflow::virtual_findings(launches).findings.size();
  std::erase_if(launches, [](const auto& launch) { return launch.kernel.empty(); });  // what the end of the run said
  const Verdict verdict = verdict_of(code, launches.size(), findings);
  if (flags.json) {
    std::cout << workflow::program_json({.device = flags.options.device,
                                         .outcome = verdict.outcome,
                                         .exit_code = code,
                                         .findings = findings,
                                         .launches = std::move(launches)});
    return verdict.exit_code;
  }
  std::cerr << fmt::format("cudadent run: {} on {}, {}, the program ended with {}\n",
                           counted(launches.size(), "launch", "es"), flags.options.device,
                           counted(findings, "finding", "s"), code);
  if (launches.empty())
    std::cerr << "cudadent run: NOTHING RAN on the virtual GPU, so nothing was checked. Does the program load "
                 "libcuda.so.1 by that name, and not the CUDA runtime? VGPU_LOG_CALLS=1 shows what it asks of the "
                 "driver.\n";
  return verdict.exit_code;
}

constexpr const char* manual =
    R"(The program finds our driver as libcuda.so.1 and runs unchanged. Its kernels must be PTX, or cubins built with
-lineinfo. Programs on the CUDA runtime API (<<<>>>, cudart) ask the driver for undocumented tables and get an
error that says so.
Exit codes: the program's own when it is not 0; else 1 when a check found something, 3 when no kernel was
launched, 0.

Examples:
  cudadent run --device virtual:l4 -- python saxpy.py
  cudadent run --device virtual:h100 --check none -- ./my_program --size 4096)";

}  // namespace

Command run_command() {
  auto flags = std::make_shared<Flags>();
  workflow::ProgramOptions& options = flags->options;
  return {.name = "run",
          .about = "Any program that uses the CUDA driver API, on a virtual GPU",
          .manual = manual,
          .options = {{.names = "--device", .value = &options.device, .about = "virtual:<gpu>", .shows_default = true},
                      {.names = "--check",
                       .value = &options.checks,
                       .about = "all, none, or a list of memcheck, initcheck, racecheck, synccheck",
                       .shows_default = true},
                      {.names = "--seed",
                       .value = &options.seed,
                       .about = "Seed of the schedule; 0 is the natural order",
                       .shows_default = true},
                      {.names = "--report",
                       .value = &options.report,
                       .about = "File for findings and counters, one JSON object per launch"},
                      {.names = "--json",
                       .value = &flags->json,
                       .about = "Launches with findings and counters, as JSON on stdout after the program"},
                      {.names = "program",
                       .value = &flags->program,
                       .about = "The program and its arguments, after --",
                       .required = true}},
          .run = [flags] { return run(*flags); },
          .takes_rest = true};
}

}  // namespace flashmoe::tools
