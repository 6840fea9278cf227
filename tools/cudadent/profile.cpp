// cudadent profile: what a kernel does on a virtual GPU, line by line, and what to change first.
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::ProfileOptions options;
  JsonFlag json;
  bool quiet = false;
};

std::string headline(const workflow::ProfileRun& run) {
  if (!run.findings.empty()) return "the checks found " + run.findings.front().group + ", to be mended first";
  const auto advice = ranked(run);
  return advice.empty() ? "no rule finds a bottleneck" : "change first: " + advice.front().rule;
}

int run(const Flags& flags) {
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("profile", flags.json, project.error());
  Progress progress(workflow::profile_steps, flags.quiet);
  auto result = workflow::run_profile(*project, flags.options, progress);
  if (!result) return fail("profile", flags.json, result.error());
  const auto rules = workflow::rules_for(*project);
  if (!rules) return fail("profile", flags.json, rules.error());
  if (const auto advised = workflow::advise(*result, *rules); !advised)
    return fail("profile", flags.json, advised.error());
  const bool is_clean = result->findings.empty();
  const int code = workflow::exit_code(is_clean ? workflow::Outcome::holds : workflow::Outcome::fails);
  // After a change the kernel is checked before it is looked at again.
  const std::string next = "cudadent gate" + workflow::project_argument(project->directory) + " --device " +
                           result->device + " --until correctness";
  if (flags.json) {
    const std::string kind = is_clean ? "" : result->findings.front().code;
    std::cout << profile_json(answer_of("profile", flags.json, code, kind, next), *result);
  } else {
    std::cout << profile_text(*result) << advice_text(ranked(*result)) << last_line(headline(*result), next);
  }
  return code;
}

constexpr const char* manual =
    R"(Runs one call of the CUDA kernels of a project on the virtual GPU with all checks and counters on, and says in
words what limits it: a grid too small for the machine, bank conflicts, occupancy and its limiter, accesses that
are not coalesced. Counts are exact for the PTX that ran; caches are a model; no time is claimed.
Exit codes: 0 profiled, 1 a check found something.

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
                  {.names = "--device",
                   .value = &options.device,
                   .about = "virtual:<gpu> (default: FLASHMOE_DEVICE, else the GPU of cuda.device)"},
                  {.names = "--workload", .value = &options.workload, .about = "Which workload (default: the target)"},
                  {.names = "--seed",
                   .value = &options.seed,
                   .about = "Seed of the inputs and of the schedule (default: a new one)"},
                  json_option(flags->json, "All counters as JSON on stdout"),
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
