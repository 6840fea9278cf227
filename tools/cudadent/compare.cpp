// cudadent compare: is the candidate faster than the base, by enough, for sure?
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/compare/outcome.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

using workflow::CompareReport;
using workflow::CompareRequest;
using workflow::Ending;
using workflow::gain_text;

struct Flags {
  CompareRequest request;
  double block_ms = 4;
  JsonFlag json;
  bool quiet = false;
};

void print_counters(const CompareReport& report) {
  const auto& compared = std::get<workflow::CompareRecord>(report.record.body);
  fmt::print("{} against {}, workload {} on {}\n", compared.candidate->name, compared.base->name, *compared.workload,
             report.record.device);
  fmt::print("{}", counters_text(*report.counters));
  if (report.record.evidence) fmt::print("evidence    {}\n", text_of(*report.record.evidence));
  fmt::print("record      {}  {:.1f} s  ${:.4f}\n", report.record.id, report.record.seconds, report.record.cost.total);
}

void print_report(const CompareReport& report) {
  if (report.counters) return print_counters(report);
  const auto& comparison = report.comparison;
  const auto& measured = std::get<workflow::CompareRecord>(report.record.body);
  const auto& policy = *measured.policy;
  fmt::print("{} against {}, workload {}\n", measured.candidate->name, measured.base->name, *measured.workload);
  if (measured.gain) {
    fmt::print("gain        {}  [{}, {}] at alpha {:.4g} (comparison {} of run {})\n", gain_text(measured.gain->mean),
               gain_text(measured.gain->lower), gain_text(measured.gain->upper), policy.alpha, policy.index,
               report.record.run);
  }
  fmt::print("least gain  {:.2f} %\n", 100 * policy.min_gain);
  fmt::print("pairs       {} of at most {}, after {} calibration pairs\n", comparison.pairs.size(), policy.max_pairs,
             comparison.calibration_pairs.size());
  if (comparison.calibration.pairs > 0) {
    fmt::print("noise       pairs of equal builds spread by {:.2f} %; smallest detectable gain {:.2f} %\n",
               100 * comparison.calibration.pair_spread, 100 * comparison.calibration.minimum_detectable_gain);
  }
  if (!comparison.pairs.empty()) {
    fmt::print("time        base {:.4g} us, candidate {:.4g} us per call ({}, last pair)\n",
               1e6 * comparison.pairs.back().base_seconds, 1e6 * comparison.pairs.back().candidate_seconds,
               report.rehearsal ? "rehearsal" : "measured");
  }
  if (report.record.evidence) fmt::print("evidence    {}\n", text_of(*report.record.evidence));
  fmt::print("record      {}  {:.1f} s  ${:.4f}\n", report.record.id, report.record.seconds, report.record.cost.total);
  for (const std::string& note : report.notes) fmt::print("note        {}\n", note);
  if (!comparison.problem.message.empty()) {
    fmt::print("why         {}\n", comparison.problem.message);
    if (!comparison.problem.fix.empty()) fmt::print("fix         {}\n", comparison.problem.fix);
  }
}

// What is kept is committed, and what is not is put aside; what is not decided goes on.
std::string next_of(const CompareReport& report, const std::string& project) {
  const auto& comparison = report.comparison;
  const bool is_commit = report.record.commit && !report.record.dirty.value_or(true);
  if (report.counters && report.outcome() != workflow::Outcome::fails) {
    return "cudadent profile" + project + " --device " + report.record.device;
  }
  switch (report.outcome()) {
    case workflow::Outcome::holds:
      return is_commit ? "cudadent journal --keep " + report.record.id : "git commit -a";
    case workflow::Outcome::fails:
      if (comparison.ending == Ending::candidate_failed) return "cudadent gate" + project;
      return is_commit ? "cudadent journal --show " + report.record.id : "git stash";
    case workflow::Outcome::could_not_run:
      return "cudadent gate" + project;
    case workflow::Outcome::inconclusive:
      break;
  }
  const bool goes_on = comparison.ending == Ending::preempted || comparison.ending == Ending::interrupted ||
                       comparison.ending == Ending::out_of_time;
  const bool says_so = same_command_again().find("--resume") != std::string::npos;
  return same_command_again() + (goes_on && !says_so ? " --resume" : "");
}

int run(Flags flags) {
  flags.request.block_seconds = flags.block_ms * 1e-3;
  Progress progress(workflow::compare_steps, flags.quiet);
  const auto report = workflow::run_compare(flags.request, progress);
  progress.done();
  if (!report) return fail("compare", flags.json, report.error());
  const int code = workflow::exit_code(report->outcome());
  const std::string next = next_of(*report, workflow::project_argument(flags.request.project));
  if (flags.json) {
    std::cout << compare_json(answer_of("compare", flags.json, code, report->code(), next), *report);
  } else {
    print_report(*report);
    fmt::print("{}", last_line(report->word(), next));
  }
  return code;
}

constexpr const char* manual =
    R"(The candidate passes the correctness gate first; a wrong one is not timed. Then equal builds are compared
(A/A): the noise of this machine decides which gains can be seen at all, and a least gain below that is
refused. Then pairs of fresh processes run both versions in ABBA blocks on the same new inputs, 6 to 24 of
them, until a test that is valid at every look has decided.

  KEEP          the lower bound is above 0 and the mean gain is at least the least gain   exit code 0
  REVERT        the upper bound is below the least gain, or the candidate failed          exit code 1
  INCONCLUSIVE  neither; also refused thresholds, preemption, interruption                exit code 3
  BASE FAILED   nothing is known about the candidate                                      exit code 4

Examples:
  cudadent compare                                  the working tree against HEAD
  cudadent compare --base v1.0 --candidate HEAD     two commits, in worktrees under .cudadent/
  cudadent compare --phase memory --note 'swizzled shared memory'
  cudadent compare --final --min-gain 0.1           a claim: new seeds, the lower bound must reach 10 %)";

}  // namespace

Command compare_command() {
  auto flags = std::make_shared<Flags>();
  CompareRequest& request = flags->request;
  return {
      .name = "compare",
      .about = "Is a candidate faster than the base, by enough, for sure?",
      .manual = manual,
      .options = {{.names = "--base",
                   .value = &request.base,
                   .about = "Commit, or directory of a kernel project",
                   .shows_default = true},
                  {.names = "--candidate",
                   .value = &request.candidate,
                   .about = "Commit, directory, or . for the working tree",
                   .shows_default = true},
                  {.names = "project,--project",
                   .value = &request.project,
                   .about = "Directory with cudadent.toml",
                   .shows_default = true},
                  {.names = "--device",
                   .value = &request.device,
                   .about = "cpu, cuda:<n>, or virtual:<gpu>: counters, no clock (default: FLASHMOE_DEVICE, else cpu)"},
                  {.names = "--workload",
                   .value = &request.workload,
                   .about = "Workload to time (default: the project's target)"},
                  {.names = "--phase",
                   .value = &request.phase,
                   .about = "Takes this phase's least gain from the project",
                   .shows_default = true},
                  {.names = "--min-gain",
                   .value = &request.min_gain,
                   .about = "Least gain worth keeping, 0.02 for 2 % (instead of --phase)",
                   .range = {{0.0, 100.0}}},
                  {.names = "--index",
                   .value = &request.index,
                   .about = "Which comparison of its run this is (default: counted)",
                   .range = {{1, 1000000}}},
                  {.names = "--run",
                   .value = &request.run,
                   .about = "Name of the run (default: CUDADENT_RUN, else the UTC day)"},
                  {.names = "--note", .value = &request.note, .about = "What the change is about, for the summary"},
                  {.names = "--block-ms",
                   .value = &flags->block_ms,
                   .about = "Shortest timed block in milliseconds",
                   .shows_default = true,
                   .range = {{2.0, 1000.0}}},
                  {.names = "--max-pairs",
                   .value = &request.max_pairs,
                   .about = "Most pairs",
                   .shows_default = true,
                   .range = {{6, 24}}},
                  {.names = "--limit",
                   .value = &request.limit_seconds,
                   .about = "Most seconds to measure",
                   .shows_default = true,
                   .range = {{1.0, 1e6}}},
                  {.names = "--seed", .value = &request.seed, .about = "Seed of the inputs (default: a new one)"},
                  {.names = "--final",
                   .value = &request.final_claim,
                   .about = "A final claim: KEEP needs the lower bound to reach the least gain"},
                  {.names = "--resume",
                   .value = &request.resume,
                   .about = "Go on with an unfinished comparison of the same two versions"},
                  json_option(flags->json, "The record with every sample, as JSON on stdout"),
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
