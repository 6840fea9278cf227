// cudadent profile: what a kernel does on a virtual GPU, line by line, and what to change first.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::ProfileOptions options;
  bool json = false;
  bool quiet = false;
};

int run(const Flags& flags) {
  const auto fail = [&](const Diagnostic& problem, int code) {
    if (flags.json) std::cout << Json{{"problem", problem.message}, {"fix", problem.fix}}.dump(2) << "\n";
    std::cerr << "cudadent profile: " << problem.to_string() << "\n";
    return code;
  };
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail(project.error(), 2);
  Progress progress(workflow::profile_steps, flags.quiet);
  const auto result = workflow::run_profile(*project, flags.options, progress);
  if (!result) return fail(result.error(), 1);
  if (flags.json) {
    std::cout << to_json(*result).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    std::cout << profile_text(*result);
  }
  return result->findings.empty() ? 0 : 1;
}

}  // namespace

void add_profile(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("profile", "What the kernel does on a virtual GPU, and what to change first");
  command->footer(
      "Runs one call of the CUDA kernels of a project on the virtual GPU with all checks and counters on, and says in\n"
      "words what limits it: a grid too small for the machine, bank conflicts, occupancy and its limiter, accesses "
      "that\n"
      "are not coalesced. Counts are exact for the PTX that ran; caches are a model; no time is claimed.\n"
      "Exit codes: 0 profiled, 1 could not run or a check found something, 2 usage.\n"
      "\n"
      "Examples:\n"
      "  cudadent profile examples/attention_naive --device virtual:l4\n"
      "  cudadent profile --workload small --json");
  command->add_option("project", flags->project, "Directory with cudadent.toml")->capture_default_str();
  command->add_option("--device", flags->options.device, "virtual:<gpu>")->capture_default_str();
  command->add_option("--workload", flags->options.workload, "Which workload (default: the target)");
  command->add_option("--seed", flags->options.seed, "Seed of the inputs and of the schedule (default: a new one)");
  command->add_flag("--json", flags->json, "All counters as JSON on stdout");
  command->add_flag("--quiet", flags->quiet, "No progress on stderr");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
