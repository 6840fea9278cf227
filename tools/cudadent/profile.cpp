// cudadent profile: what a kernel does on a virtual GPU, line by line, and what to change first.
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/output/output.hpp"

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
    if (flags.json) std::cout << workflow::problem_json("", "", problem);
    std::cerr << "cudadent profile: " << problem.to_string() << "\n";
    return code;
  };
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail(project.error(), 2);
  Progress progress(workflow::profile_steps, flags.quiet);
  const auto result = workflow::run_profile(*project, flags.options, progress);
  if (!result) return fail(result.error(), 1);
  std::cout << (flags.json ? workflow::profile_json(*result) : profile_text(*result));
  return result->findings.empty() ? 0 : 1;
}

constexpr const char* manual =
    R"(Runs one call of the CUDA kernels of a project on the virtual GPU with all checks and counters on, and says in
words what limits it: a grid too small for the machine, bank conflicts, occupancy and its limiter, accesses that
are not coalesced. Counts are exact for the PTX that ran; caches are a model; no time is claimed.
Exit codes: 0 profiled, 1 could not run or a check found something, 2 usage.

Examples:
  cudadent profile examples/attention_naive --device virtual:l4
  cudadent profile --workload small --json)";

}  // namespace

Command profile_command() {
  auto flags = std::make_shared<Flags>();
  workflow::ProfileOptions& options = flags->options;
  return {
      .name = "profile",
      .about = "What the kernel does on a virtual GPU, and what to change first",
      .manual = manual,
      .options = {{.names = "project",
                   .value = &flags->project,
                   .about = "Directory with cudadent.toml",
                   .shows_default = true},
                  {.names = "--device", .value = &options.device, .about = "virtual:<gpu>", .shows_default = true},
                  {.names = "--workload", .value = &options.workload, .about = "Which workload (default: the target)"},
                  {.names = "--seed",
                   .value = &options.seed,
                   .about = "Seed of the inputs and of the schedule (default: a new one)"},
                  {.names = "--json", .value = &flags->json, .about = "All counters as JSON on stdout"},
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
