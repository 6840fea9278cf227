// cudadent advise: the one bottleneck, and what to change.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/advise/builtin.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/advise/patterns.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/evidence.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::ProfileOptions options;
  bool rules = false, counters = false;
  JsonFlag json;
  bool quiet = false;
};

int run(const Flags& flags) {
  if (flags.rules) {
    std::cout << workflow::builtin_rules_text();
    return 0;
  }
  if (flags.counters) {
    for (const auto& counter : workflow::counter_names()) fmt::print("{:<24} {}\n", counter.name, counter.about);
    return 0;
  }
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("advise", flags.json, project.error());
  const auto rules = workflow::rules_for(*project);
  if (!rules) return fail("advise", flags.json, rules.error());
  Progress progress(workflow::profile_steps, flags.quiet);
  auto profile = workflow::run_profile(*project, flags.options, progress);
  if (!profile) return fail("advise", flags.json, profile.error());
  if (const auto advised = workflow::advise(*profile, *rules); !advised)
    return fail("advise", flags.json, advised.error());
  std::vector<workflow::Advice> advice = ranked(*profile);
  const auto patterns = workflow::patterns_of(*project);
  if (!patterns) return fail("advise", flags.json, patterns.error());
  rank_by_patterns(advice, workflow::PatternPrior(*patterns, workflow::predicted_evidence));
  const std::string on = workflow::project_argument(project->directory) + " --device " + profile->device;
  // What is wrong is mended before what is slow.
  const bool wrong = !profile->findings.empty();
  const int code = exit_code(wrong ? workflow::Outcome::fails : workflow::Outcome::holds);
  const std::string next = wrong ? "cudadent gate" + on + " --until correctness" : "cudadent try" + on;
  if (flags.json) {
    const std::string kind = wrong ? profile->findings.front().code : "";
    std::cout << advice_json(answer_of("advise", flags.json, code, kind, next), *profile, advice);
  } else if (wrong) {
    std::cout << findings_text(profile->findings)
              << last_line("wrong before slow: the checks found " + profile->findings.front().group, next);
  } else {
    const std::string answer = advice.empty() ? "no rule finds a bottleneck" : advice.front().bottleneck;
    const std::string first = advice.empty() || advice.front().where.empty() ? "edit" : "edit " + advice.front().where;
    std::cout << advice_text(advice) << last_line(answer, first + ", then " + next);
  }
  return code;
}

constexpr const char* manual =
    R"(Runs one call on a virtual GPU with every check on and holds its exact counters against rules: a condition, the
bottleneck it means, the one change, the counter that has to move and how far. The rule with the largest expected gain is
the primary bottleneck. Rules are data: --rules prints the built-in ones, and an advice.toml beside cudadent.toml adds to
them. Exit codes: 0 advised, 1 a check found something, which is mended first.

Examples:
  cudadent advise examples/attention_naive
  cudadent advise --rules > advice.toml       a start for rules of your own)";

}  // namespace

Command advise_command() {
  auto flags = std::make_shared<Flags>();
  workflow::ProfileOptions& options = flags->options;
  return {
      .name = "advise",
      .about = "The one bottleneck of a kernel, and what to change",
      .manual = manual,
      .options = {{.names = "project",
                   .value = &flags->project,
                   .about = "Directory with cudadent.toml",
                   .shows_default = true},
                  {.names = "--device",
                   .value = &options.device,
                   .about = "virtual:<gpu> (default: FLASHMOE_DEVICE, else the GPU of cuda.device)"},
                  {.names = "--workload", .value = &options.workload, .about = "Which workload (default: the target)"},
                  {.names = "--seed", .value = &options.seed, .about = "Seed of the inputs (default: a new one)"},
                  {.names = "--rules", .value = &flags->rules, .about = "Print the built-in rules"},
                  {.names = "--counters", .value = &flags->counters, .about = "List the counters that rules may name"},
                  json_option(flags->json, "All advice as JSON on stdout"),
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
