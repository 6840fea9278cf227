// cudadent run: anybody's driver-API program on a virtual GPU.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "workflow/gpu/explain.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/program.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

constexpr std::size_t most_told = 10;  // findings; all of them are in the report

struct Flags {
  workflow::ProgramOptions options;
  std::vector<std::string> program;
  bool leaks = false;
  bool explain = false;
  int findings_exit = workflow::exit_code(workflow::Outcome::fails);
  JsonFlag json;
};

// The program keeps its terminal, its input and its signals; only its environment differs, and its stdout where ours is
// for JSON alone. Returns its exit code; what kept it from starting comes through a pipe that a successful exec closes.
Result<int> wait_for(const std::vector<std::string>& program, const std::vector<std::string>& environment,
                     bool keep_stdout) {
  const auto failed = [&](int error) {
    return Diagnostic{.message = program[0] + ": " + std::strerror(error),
                      .fix = "name a program that is there and may be executed",
                      .code = workflow::codes::run_cannot_start};
  };
  std::array<int, 2> trouble{};
  if (pipe2(trouble.data(), O_CLOEXEC) != 0) return failed(errno);
  const pid_t child = fork();
  if (child == 0) {
    for (const std::string& setting : environment) {
      const std::size_t equals = setting.find('=');
      setenv(setting.substr(0, equals).c_str(), setting.c_str() + equals + 1, 1);
    }
    if (!keep_stdout) dup2(STDERR_FILENO, STDOUT_FILENO);
    std::vector<char*> argv;
    argv.reserve(program.size() + 1);
    for (const std::string& word : program) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    const ssize_t ignored = write(trouble[1], &error, sizeof error);
    static_cast<void>(ignored);
    _exit(127);
  }
  const int fork_error = errno;
  close(trouble[1]);
  int error = 0;
  const bool did_not_start = child >= 0 && read(trouble[0], &error, sizeof error) == sizeof error;
  close(trouble[0]);
  if (child < 0) return failed(fork_error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (did_not_start) return failed(error);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string counted(std::size_t count, const char* noun, const char* plural) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : plural);
}

// What the checks found comes first, since a program that notices its wrong result fails, too; then the program's own
// failure. A run without a launch has shown nothing.
struct Verdict {
  const char* outcome;
  int exit_code;
  const char* code;
};
Verdict verdict_of(const Flags& flags, int program_exit_code, std::size_t launches, bool any_refused,
                   const std::vector<workflow::Finding>& findings) {
  using workflow::Outcome;
  if (!findings.empty()) return {"findings", flags.findings_exit, workflow::check_code(findings.front().group)};
  if (program_exit_code != 0) return {"program failed", program_exit_code, workflow::codes::run_program_failed};
  if (launches == 0 && any_refused) {
    return {"launches refused", workflow::exit_code(Outcome::inconclusive), workflow::codes::run_refused};
  }
  if (launches == 0) {
    return {"nothing ran", workflow::exit_code(Outcome::inconclusive), workflow::codes::run_nothing_ran};
  }
  return {"holds", workflow::exit_code(Outcome::holds), ""};
}

// What did not go well is done again after a change; what held is tried in another order.
std::string next_of(const Flags& flags, const Verdict& verdict, const std::string& device) {
  std::string command = fmt::format("cudadent run --device {}", device);
  if (flags.options.checks != "all") command += " --check " + shell_word(flags.options.checks);
  if (flags.leaks) command += " --leaks";
  if (flags.options.clock != workflow::ProgramOptions{}.clock) command += " --clock " + flags.options.clock;
  if (!flags.options.sample.empty()) command += " --sample " + shell_word(flags.options.sample);
  if (verdict.exit_code == 0) command += fmt::format(" --seed {}", flags.options.seed + 1);
  command += " --";
  for (const std::string& word : flags.program) command += " " + shell_word(word);
  return verdict.code == std::string_view(workflow::codes::run_nothing_ran) ? "VGPU_LOG_CALLS=1 " + command : command;
}

// As it would be typed here.
std::string without_this_directory(std::string place) {
  const std::string here = std::filesystem::current_path().string() + "/";
  if (place.starts_with(here)) place.erase(0, here.size());
  return place;
}

// One line each: the driver has told it in full when it happened, if the program let it. Test runners swallow what
// passing tests say.
void tell(const std::vector<workflow::Finding>& findings, const std::vector<std::string>& messages) {
  for (std::size_t i = 0; i < std::min(findings.size(), most_told); ++i) {
    const workflow::Finding& finding = findings[i];
    const std::string place = finding.where.empty() ? "" : without_this_directory(finding.where) + ": ";
    std::cerr << fmt::format("  {}: {}{}\n", finding.group, place, i < messages.size() ? messages[i] : finding.what);
  }
  if (findings.size() > most_told) {
    std::cerr << fmt::format("  and {} more; --report FILE has them all\n", findings.size() - most_told);
  }
}

// Why there were no launches where the program asked for some; each once, as the driver said it.
std::vector<std::string> refusals(const std::vector<workflow::LaunchReport>& launches) {
  std::vector<std::string> all;
  for (const workflow::LaunchReport& launch : launches) {
    const bool is_told = std::find(all.begin(), all.end(), launch.refused) != all.end();
    if (!launch.refused.empty() && !is_told) all.push_back(launch.refused);
  }
  return all;
}

// Before it runs: what it needs, and what of that is missing.
int explain(const Flags& flags) {
  const auto told = workflow::explain_program(flags.program[0], flags.options);
  if (!told) return fail("run", flags.json, told.error());
  const bool holds = told->lacks.empty();
  const int exit_code = workflow::exit_code(holds ? workflow::Outcome::holds : workflow::Outcome::fails);
  const auto device = program_device(flags.options);
  if (!device) return fail("run", flags.json, device.error());
  const std::string next =
      holds ? next_of(flags, {.outcome = "", .exit_code = 1, .code = ""}, device->to_string()) : same_command_again();
  const char* const code = holds ? "" : workflow::codes::run_lacks;
  if (flags.json) {
    std::cout << explanation_json(answer_of("run", flags.json, exit_code, code, next), *told);
    return exit_code;
  }
  std::cout << explanation_text(*told)
            << last_line(holds ? "nothing is missing" : fmt::format("{} missing", told->lacks.size()), next);
  return exit_code;
}

int run(Flags flags) {
  if (flags.explain) return explain(flags);
  const workflow::ReportFile own_report;
  if (flags.options.report.empty()) {
    flags.options.report = own_report.path();
    flags.options.counters = static_cast<bool>(flags.json) || !flags.options.sample.empty();  // else nobody sees them
  }
  const auto device = program_device(flags.options);
  if (!device) return fail("run", flags.json, device.error());
  const auto environment = workflow::program_environment(flags.options);
  if (!environment) return fail("run", flags.json, environment.error());
  std::uint64_t from = workflow::end_of_report(flags.options.report);
  const auto code = wait_for(flags.program, *environment, !flags.json);
  if (!code) return fail("run", flags.json, code.error());
  auto launches = workflow::read_launches(flags.options.report, from);
  const auto found = workflow::virtual_findings(launches);
  std::vector<workflow::Finding> findings = found.findings;
  if (flags.leaks) findings.insert(findings.end(), found.leaks.begin(), found.leaks.end());
  const std::vector<std::string> refused = refusals(launches);
  std::erase_if(launches, [](const auto& launch) { return launch.kernel.empty(); });  // what the end of the run said
  const Verdict verdict = verdict_of(flags, *code, launches.size(), !refused.empty(), findings);
  const std::string next = next_of(flags, verdict, device->to_string());
  if (flags.json) {
    std::cout << program_json(answer_of("run", flags.json, verdict.exit_code, verdict.code, next),
                              {.device = device->to_string(),
                               .clock = flags.options.clock,
                               .outcome = verdict.outcome,
                               .program_exit_code = *code,
                               .findings = std::move(findings),
                               .refused = refused,
                               .launches = std::move(launches)});
    return verdict.exit_code;
  }
  // The program's own output has stdout for itself.
  for (std::size_t i = 0; i < std::min(refused.size(), most_told); ++i) {
    std::cerr << fmt::format("  refused: {}\n", refused[i]);
  }
  if (launches.empty() && refused.empty() && *code != 0) {
    std::cerr << fmt::format(
        "cudadent run: the program ended with {} before anything ran on the virtual GPU, so nothing "
        "was checked. What it says is above\n",
        *code);
  } else if (launches.empty() && refused.empty()) {
    std::cerr << "cudadent run: NOTHING RAN on the virtual GPU, so nothing was checked (what cuBLAS computes is no "
                 "kernel here). Does the program load libcuda.so.1 by that name, or the CUDA runtime as a library "
                 "(cudadent run --explain says)? "
                 "VGPU_LOG_CALLS=1 shows what it asks of the driver.\n";
  }
  tell(findings, found.messages);
  const bool is_same_again =
      verdict.exit_code != 0 && verdict.code != std::string_view(workflow::codes::run_nothing_ran);
  const bool is_predicted = flags.options.clock == "predicted";
  const std::string& sample = flags.options.sample;
  std::cerr << bold(fmt::format("cudadent run: {} on {}, {}, {}{}the program ended with {}; next: {}",
                                counted(launches.size(), "launch", "es"), device->to_string(),
                                counted(findings.size(), "finding", "s"),
                                is_predicted ? "event times are predicted, " : "",
                                sample.empty() ? "" : "counters are of a sample (" + sample + " of the CTAs), ", *code,
                                is_same_again ? "the same again, after a change" : next),
                    may_colour(2))
            << "\n";
  return verdict.exit_code;
}

constexpr const char* manual =
    R"(The program finds our driver as libcuda.so.1 and runs unchanged. Its kernels must be PTX, or cubins built with
-lineinfo. Programs on the CUDA runtime API (<<<>>>, cudart) are linked with the shared one, which nvcc does when it is
told -cudart shared. --explain reads the program's files and says what it needs (libraries, linkage of the runtime,
forms of PTX), what of it is missing, and with --json what is set for it; it exits with 1 when something is missing.
Exit codes: 1 when a check found something (another number with --findings-exit), whatever the program ended with;
else the program's own when it is not 0; else 3 when no kernel was launched or all were refused, 0. 4 when the program
could not be started. Memory that is never freed is told, and counts with --leaks.
Times between events are a lower bound. With --clock predicted they are what cudadent predict says of each launch, at
the boost clock; what it does not predict stays a lower bound, and the driver's log says so. Nothing is measured.
Counters are taken where --report or --json asks for them, and cost time. With --sample 64, or --sample 5%, every CTA
runs and so many are counted, two of each stretch of the grid, drawn by --seed; counts are scaled and say so, with their
standard error. Caches, DRAM bytes and the busiest SM need every CTA and are left out, and so are checks: --check none.

Examples:
  cudadent run --device virtual:l4 -- python saxpy.py
  cudadent run --explain -- ./my_program
  cudadent run --device virtual:h100 --check none -- ./my_program --size 4096
  cudadent run --check none --clock predicted -- ./my_benchmark
  cudadent run --check none --sample 2% --report counters.jsonl -- ./my_program)";

}  // namespace

Command run_command() {
  auto flags = std::make_shared<Flags>();
  workflow::ProgramOptions& options = flags->options;
  return {
      .name = "run",
      .about = "Any program that uses the CUDA driver API, on a virtual GPU",
      .manual = manual,
      .options = {{.names = "--device",
                   .value = &options.device,
                   .about = "virtual:<gpu> (default: FLASHMOE_DEVICE, else virtual:l4)"},
                  {.names = "--check",
                   .value = &options.checks,
                   .about = "all, none, or a list of memcheck, initcheck, racecheck, synccheck",
                   .shows_default = true},
                  {.names = "--seed",
                   .value = &options.seed,
                   .about = "Seed of the schedule; 0 is the natural order",
                   .shows_default = true},
                  {.names = "--clock",
                   .value = &options.clock,
                   .about = "What events tell",
                   .shows_default = true,
                   .choices = {"lower-bound", "predicted"}},
                  {.names = "--sample",
                   .value = &options.sample,
                   .about = "Counters of so many CTAs (64, or 5%) of each launch, scaled; with --check none (default: "
                            "all CTAs)"},
                  {.names = "--report",
                   .value = &options.report,
                   .about = "File for findings and counters, one JSON object per launch"},
                  {.names = "--explain",
                   .value = &flags->explain,
                   .about = "Say what the program needs and what of it is missing; nothing runs"},
                  {.names = "--leaks", .value = &flags->leaks, .about = "Memory that is never freed is a finding"},
                  {.names = "--findings-exit",
                   .value = &flags->findings_exit,
                   .about = "Exit code when a check found something",
                   .shows_default = true},
                  json_option(
                      flags->json,
                      "Launches with findings and counters, as JSON on stdout; the program's stdout goes to stderr"),
                  {.names = "program",
                   .value = &flags->program,
                   .about = "The program and its arguments, after --",
                   .required = true}},
      .run = [flags] { return run(*flags); },
      .takes_rest = true};
}

}  // namespace flashmoe::tools
