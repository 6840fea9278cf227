// cudadent profile: why a kernel is not faster, line by line where the device can tell, and what to change first.
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/gates/profile_gate.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  workflow::ProfileRequest request;
  bool no_record = false;
  JsonFlag json;
  bool quiet = false;
};

std::string headline(const workflow::Profile& profile) {
  const auto& facts = std::get<workflow::ProfileFacts>(profile.result.facts);
  if (profile.result.outcome == workflow::Outcome::fails) {
    return "the checks found " + profile.run.findings.front().group + ", to be mended first";
  }
  const std::string record = profile.record.id.empty() ? "" : ", record " + profile.record.id;
  return (facts.bottleneck ? "change first: " + facts.bottleneck->rule : profile.result.summary) + record;
}

int run(Flags flags) {
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("profile", flags.json, project.error());
  flags.request.record = !flags.no_record;
  Progress progress(workflow::profile_gate_steps, flags.quiet);
  const auto profile = workflow::profile_project(*project, flags.request, progress);
  if (!profile) return fail("profile", flags.json, profile.error());
  // As of the gates: what nobody can look up is degraded.
  const bool is_lost = !profile->record_problem.what.empty() && profile->result.outcome == workflow::Outcome::holds;
  const int code = exit_code(is_lost ? workflow::Outcome::inconclusive : profile->result.outcome);
  const std::string kind = is_lost ? profile->record_problem.code : profile->result.code;
  // After a change the kernel is checked before it is looked at again.
  const std::string next = "cudadent gate" + workflow::project_argument(project->directory) + " --device " +
                           profile->run.device + " --until correctness";
  if (flags.json) {
    std::cout << profile_json(answer_of("profile", flags.json, code, kind, next), *profile);
  } else {
    if (!profile->record_problem.what.empty()) std::cerr << profile->record_problem.what << "\n";
    std::cout << profile_text(*profile) << last_line(headline(*profile), next);
  }
  return code;
}

constexpr const char* manual =
    R"(Runs the kernel of a project and names the one thing that limits it, with its evidence and the change to try. The
result is held against the reference first: of a wrong kernel nothing is named.
  virtual:<gpu>  one call with all checks and counters on: a grid too small for the machine, bank conflicts, occupancy
                 and its limiter, accesses that are not coalesced. Counts are exact for the PTX that ran; caches are
                 a model; no time is claimed
  cuda:<n>       a card: attributes, occupancy, events, and its counters where it lets us read them
  cpu            the time of a call, what moving its bytes takes at the bandwidth measured beside it, and the
                 processor's counters where they may be read; else it is degraded and says so
--debug profiles a wrong kernel, too. That is no evidence, and is recorded as none.
Every profile leaves a record (cudadent journal --kind profile).
Exit codes: 0 profiled, 1 it is wrong or a check found something, 3 degraded (no counters) or --debug.

Examples:
  cudadent profile examples/attention_naive --device virtual:l4
  cudadent profile --device cpu
  cudadent profile --workload small --json)";

}  // namespace

Command profile_command() {
  auto flags = std::make_shared<Flags>();
  workflow::ProfileRequest& request = flags->request;
  return {
      .name = "profile",
      .about = "Why the kernel is not faster, and what to change first",
      .manual = manual,
      .options =
          {{.names = "project",
            .value = &flags->project,
            .about = "Directory with cudadent.toml",
            .shows_default = true},
           {.names = "--device",
            .value = &request.device,
            .about =
                "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cuda.device's, or cpu without CUDA "
                "kernels)"},
           {.names = "--workload", .value = &request.workload, .about = "Which workload (default: the target)"},
           {.names = "--seed",
            .value = &request.seed,
            .about = "Seed of the inputs and of the schedule (default: a new one)"},
           {.names = "--threads",
            .value = &request.threads,
            .about = "Threads the kernel may use on the CPU",
            .shows_default = true,
            .range = {{1, 1024}}},
           {.names = "--debug", .value = &request.debug, .about = "Also a kernel that is wrong; marked as no evidence"},
           {.names = "--no-record", .value = &flags->no_record, .about = "Write nothing to the journal"},
           json_option(flags->json, "All counters as JSON on stdout"),
           {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
