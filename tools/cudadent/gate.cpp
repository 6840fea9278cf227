// cudadent gate: environment, build, correctness, performance, in this order.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <sstream>

#include "commands.hpp"
#include "support/process.hpp"
#include "support/progress.hpp"
#include "workflow/gates/gates.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::GateOptions options;
  bool no_record = false;
  bool bisect = false;
  bool json = false;
  bool quiet = false;
};

int run(Flags flags) {
  const auto project = workflow::load_project(flags.project);
  if (!project) {
    if (flags.json) std::cout << workflow::problem_json("outcome", "could not run", project.error());
    std::cerr << "cudadent gate: " << project.error().to_string() << "\n";
    return flags.bisect ? 125 : 2;
  }
  flags.options.record = !flags.no_record;
  Progress progress(static_cast<int>(workflow::all_gates().size()), flags.quiet);
  const workflow::GateRun result = workflow::run_gates(*project, flags.options, progress);
  std::cout << (flags.json ? workflow::gate_json(result) : report_text(result, may_colour(1)));
  if (flags.bisect) return bisect_code(result);
  if (interrupted()) return 3;
  const int code = exit_code(result.outcome);
  return code == 0 && !result.record_problem.what.empty() ? 3 : code;  // a verdict nobody can look up is degraded
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
    R"(The gates run in this order; one that does not hold ends the run, and one that could not run has failed.
{}Inputs are new in every run; --seed repeats those of a record, except in timed calls.
Every run leaves a record (cudadent journal).
Exit codes: 0 holds, 1 does not, 2 usage, 3 inconclusive; with --bisect 125 when it could not build or decide.

Examples:
  cudadent gate                          the project in this directory
  cudadent gate --until correctness      no timing
  cudadent gate --only performance --accept-baseline
  git bisect run cudadent gate --bisect --until correctness)";

}  // namespace

Command gate_command() {
  auto flags = std::make_shared<Flags>();
  workflow::GateOptions& options = flags->options;
  return {.name = "gate",
          .about = "Environment, build, correctness, performance: which gate holds?",
          .manual = fmt::format(manual, list_of_gates()),
          .options = {{.names = "project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--device",
                       .value = &options.device,
                       .about = "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cpu)"},
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
                      {.names = "--json",
                       .value = &flags->json,
                       .about = "The record with every finding and sample, as JSON on stdout"},
                      {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
