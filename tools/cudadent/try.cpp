// cudadent try: is the edit in the working tree worth keeping?
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/output/output.hpp"
#include "workflow/trial/trial.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::TrialRequest request;
  JsonFlag json;
  bool quiet = false;
};

int run(const Flags& flags) {
  Progress progress(workflow::trial_steps, flags.quiet);
  const auto report = workflow::run_trial(flags.request, progress);
  progress.done();
  if (!report) return fail("try", flags.json, report.error());
  const int code = workflow::exit_code(report->outcome);
  if (flags.json) {
    std::cout << trial_json(answer_of("try", flags.json, code, report->code, report->next), *report);
  } else {
    std::cout << trial_text(*report) << last_line(report->word, report->next);
  }
  return code;
}

constexpr const char* manual =
    R"(Takes the difference between your working tree and HEAD as one change: builds it in a worktree, checks that it is
right by HEAD's reference, workloads and tolerances, and compares it with HEAD. Your tree, index and branch stay as they
are; the edit is also kept as a commit under refs/cudadent. Where there is no clock (virtual GPUs) the counters
of both are compared, and the answer is never KEEP.

  KEEP                faster for sure, and by enough                            exit code 0
  REVERT              wrong, does not build, or surely not faster by enough     exit code 1
  REFUSED             it changes what judges, too: nothing was run               exit code 1
  INCONCLUSIVE        neither; also preemption and interruption                 exit code 3
  PREDICTED           virtual GPU: right; the gain is predicted, not measured   exit code 3
  REHEARSAL           rehearsal:cuda:<n>: right; the way of a card, no card's time   exit code 3
  COUNTERS MOVED      virtual GPU: right, and some counter changed by over 1 %  exit code 0
  COUNTERS NOT MOVED  virtual GPU: right, but nothing that is counted changed   exit code 3

Examples:
  cudadent try                                             the edit in this directory, on the CPU
  cudadent try --because 'rows padded by 16 bytes'         the reason, for the record
  cudadent try --device virtual:l4 --phase memory)";

}  // namespace

Command try_command() {
  auto flags = std::make_shared<Flags>();
  workflow::TrialRequest& request = flags->request;
  return {.name = "try",
          .about = "Is the edit in your working tree worth keeping?",
          .manual = manual,
          .options = {{.names = "project",
                       .value = &request.project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--because", .value = &request.because, .about = "Why it should help, for the record"},
                      {.names = "--device",
                       .value = &request.device,
                       .about = "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cpu)"},
                      {.names = "--workload",
                       .value = &request.workload,
                       .about = "Workload to compare on (default: the project's target)"},
                      {.names = "--phase",
                       .value = &request.phase,
                       .about = "Takes this phase's least gain from the project",
                       .shows_default = true},
                      {.names = "--min-gain",
                       .value = &request.min_gain,
                       .about = "Least gain worth keeping, 0.02 for 2 % (instead of --phase)",
                       .range = {{0.0, 100.0}}},
                      {.names = "--run",
                       .value = &request.run,
                       .about = "Name of the run (default: CUDADENT_RUN, else the UTC day)"},
                      {.names = "--seed", .value = &request.seed, .about = "Seed of the inputs (default: a new one)"},
                      {.names = "--limit",
                       .value = &request.limit_seconds,
                       .about = "Most seconds to measure",
                       .shows_default = true,
                       .range = {{1.0, 1e6}}},
                      json_option(flags->json, "Record, gates, comparison and patch, as JSON on stdout"),
                      {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
