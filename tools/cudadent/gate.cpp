// cudadent gate: environment, build, correctness, performance, in this order.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "support/process.hpp"
#include "support/progress.hpp"
#include "workflow/gates/gates.hpp"

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
    if (flags.json) {
      std::cout << Json{{"outcome", "could not run"},
                        {"problem", project.error().message},
                        {"fix", project.error().fix}}
                       .dump(2, ' ', false, Json::error_handler_t::replace)
                << "\n";
    }
    std::cerr << "cudadent gate: " << project.error().to_string() << "\n";
    return flags.bisect ? 125 : 2;
  }
  flags.options.record = !flags.no_record;
  Progress progress(workflow::gate_steps, flags.quiet);
  const workflow::GateRun result = workflow::run_gates(*project, flags.options, progress);
  if (flags.json) {
    std::cout << to_json(result).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    std::cout << report_text(result, may_colour(1));
  }
  if (flags.bisect) return bisect_code(result);
  if (interrupted()) return 3;
  const int code = exit_code(result.outcome);
  return code == 0 && !result.record_problem.what.empty() ? 3 : code;  // a verdict nobody can look up is degraded
}

}  // namespace

void add_gate(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("gate", "Environment, build, correctness, performance: which gate holds?");
  command->footer(
      "The gates run in this order; one that does not hold ends the run, and one that could not run has failed.\n"
      "  environment   what this project needs on this machine\n"
      "  build         C++ callables; every CUDA instance for every architecture, without a GPU\n"
      "  correctness   tiny first, then all workloads, random shapes and hard values, against the reference; a wrong\n"
      "                result comes with the first wrong element and the mistake that explains it\n"
      "  performance   the baseline first and in a process of its own, small before target, ABBA blocks; the verdict\n"
      "                is on the lower confidence bound. A recorded baseline is measured again: outside the allowed\n"
      "                drift the run stops and says what differs\n"
      "Inputs are new in every run; --seed repeats those of a record. Every run leaves a record (cudadent journal).\n"
      "Exit codes: 0 holds, 1 does not, 2 usage, 3 inconclusive; with --bisect 125 when it could not build or decide.\n"
      "\n"
      "Examples:\n"
      "  cudadent gate                          the project in this directory\n"
      "  cudadent gate --until correctness      no timing\n"
      "  cudadent gate --only performance --accept-baseline\n"
      "  git bisect run cudadent gate --bisect --until correctness");
  workflow::GateOptions& options = flags->options;
  command->add_option("project", flags->project, "Directory with cudadent.toml")->capture_default_str();
  command->add_option("--device", options.device,
                      "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cpu)");
  auto* only = command->add_option("--only", options.only, "One gate; what it needs is built first")
                   ->check(CLI::IsMember(workflow::gate_names()));
  command->add_option("--until", options.until, "The last gate to run")
      ->check(CLI::IsMember(workflow::gate_names()))
      ->excludes(only);
  command->add_option("--seed", options.seed, "Seed of the inputs (default: a new one)");
  command->add_option("--threads", options.threads, "Threads the kernel and the baseline may use")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--limit", options.limit_seconds_per_workload, "Most seconds of timing per workload")
      ->check(CLI::Range(0.5, 1e5))
      ->capture_default_str();
  command->add_flag("--accept-baseline", options.accept_baseline, "A drifted baseline becomes the recorded one");
  command->add_flag("--no-record", flags->no_record, "Write nothing to the journal");
  command->add_flag("--bisect", flags->bisect, "Exit codes for git bisect run");
  command->add_flag("--json", flags->json, "The record with every finding and sample, as JSON on stdout");
  command->add_flag("--quiet", flags->quiet, "No progress on stderr");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
