// cudadent gate: environment, build, correctness, performance, profile, in this order.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <sstream>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::GateOptions options;
  bool no_record = false;
  bool bisect = false;
  JsonFlag json;
  bool quiet = false;
};

constexpr int bisect_skips = 125;

int run(Flags flags) {
  const int otherwise = flags.bisect ? bisect_skips : 0;
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("gate", flags.json, project.error(), otherwise);
  if (const auto device = workflow::select_device(flags.options.device, device_of(*project)); !device) {
    return fail("gate", flags.json, device.error(), otherwise);
  }
  flags.options.record = !flags.no_record;
  Progress progress(static_cast<int>(workflow::all_gates().size()), flags.quiet);
  const workflow::GateRun result = workflow::run_gates(*project, flags.options, progress);
  const int code = flags.bisect ? bisect_code(result) : exit_code(result);
  std::cout << (flags.json ? gate_json(answer_of("gate", flags.json, code, result.code, result.next), result)
                           : report_text(result, may_colour(1)));
  return code;
}

// Name and text in two columns.
std::string list_of_gates() {
  std::string list;
  for (const workflow::Gate* gate : workflow::all_gates()) {
    std::istringstream about(gate->about);
    std::string name = gate->name;
    for (std::string line; std::getline(about, line); name.clear()) list += fmt::format("  {:<14}{}\n", name, line);
  }
  return list;
}

constexpr const char* manual =
    R"(The gates run in this order; one that does not hold, or could not run, ends the run. Only profile comes behind
a performance that is too low, to say why.
{}Inputs are new in every run; --seed repeats those of a record, except in timed calls.
Every run leaves a record (cudadent journal).
Without nvcc the CUDA twin of a C++ kernel is not checked; all else is. With --bisect the exit code is 0 for a good
commit, 1 for a bad one, 125 where it could not build, run or decide, and 130, which ends the bisection, when
interrupted.

Examples:
  cudadent gate                          the project in this directory
  cudadent gate --until correctness      no timing
  cudadent gate --only performance --accept-baseline
  git bisect run cudadent gate --bisect --until correctness)";

}  // namespace

Command gate_command() {
  auto flags = std::make_shared<Flags>();
  workflow::GateOptions& options = flags->options;
  return {
      .name = "gate",
      .about = "Environment, build, correctness, performance, profile: which gate holds?",
      .manual = fmt::format(manual, list_of_gates()),
      .options = {{.names = "project",
                   .value = &flags->project,
                   .about = "Directory with cudadent.toml",
                   .shows_default = true},
                  {.names = "--device",
                   .value = &options.device,
                   .about = "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cpu, or the project's GPU "
                            "where it has no C++ kernel)"},
                  {.names = "--only",
                   .value = &options.only,
                   .about = "One gate; what it needs is built first",
                   .choices = workflow::gate_names(),
                   .alternatives = "which"},
                  {.names = "--until",
                   .value = &options.until,
                   .about = "The last gate to run",
                   .choices = workflow::gate_names(),
                   .alternatives = "which"},
                  {.names = "--seed", .value = &options.seed, .about = "Seed of the inputs (default: a new one)"},
                  {.names = "--threads",
                   .value = &options.threads,
                   .about = "Threads the kernel and the baseline may use",
                   .shows_default = true,
                   .range = {{1, 1024}}},
                  {.names = "--limit",
                   .value = &options.limit_seconds_per_workload,
                   .about = "Most seconds of timing per workload",
                   .shows_default = true,
                   .range = {{0.5, 1e5}}},
                  {.names = "--accept-baseline",
                   .value = &options.accept_baseline,
                   .about = "A drifted baseline becomes the recorded one"},
                  {.names = "--no-record", .value = &flags->no_record, .about = "Write nothing to the journal"},
                  {.names = "--bisect", .value = &flags->bisect, .about = "Exit codes for git bisect run"},
                  json_option(flags->json, "The record with every finding and sample, as JSON on stdout"),
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
