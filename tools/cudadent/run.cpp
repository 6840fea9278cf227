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
  auto launches = workflow::read_launches(flags.options.report);
  const std::size_t findings = workflow::virtual_findings(launches).findings.size();
  std::erase_if(launches, [](const auto& launch) { return launch.kernel.empty(); });  // what the end of the run said
  if (flags.json) {
    std::cout << workflow::program_json(flags.options.device, code, launches);
  } else {
    std::cerr << fmt::format("cudadent run: {} on {}, {}, the program ended with {}\n",
                             counted(launches.size(), "launch", "es"), flags.options.device,
                             counted(findings, "finding", "s"), code);
  }
  return code != 0 ? code : findings == 0 ? 0 : 1;
}

constexpr const char* manual =
    R"(The program finds our driver as libcuda.so.1 and runs unchanged. Its kernels must be PTX, or cubins built with
-lineinfo. Programs on the CUDA runtime API (<<<>>>, cudart) ask the driver for undocumented tables and get an
error that says so.
Exit codes: the program's own; 1 when it ended with 0 but a check found something.

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
