// cudadent compare: is the candidate faster than the base, by enough, for sure?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/journal/fields.hpp"

namespace flashmoe::tools {
namespace {

using workflow::CompareReport;
using workflow::CompareRequest;
using workflow::Ending;
using workflow::gain_text;

struct Flags {
  CompareRequest request;
  double block_ms = 4;
  bool json = false;
  bool quiet = false;
};

void print_report(const CompareReport& report) {
  const Json& record = report.record;
  const auto& comparison = report.comparison;
  fmt::print("{}  {} against {}, workload {}\n", comparison.word(), record["candidate"]["name"].get<std::string>(),
             record["base"]["name"].get<std::string>(), record["workload"].get<std::string>());
  const Json& policy = record["policy"];
  if (record["gain"].is_object()) {
    fmt::print("gain        {}  [{}, {}] at alpha {:.4g} (comparison {} of run {})\n",
               gain_text(record["gain"]["mean"]), gain_text(record["gain"]["lower"]),
               gain_text(record["gain"]["upper"]), policy["alpha"].get<double>(), policy["index"].get<int>(),
               record["run"].get<std::string>());
  }
  fmt::print("least gain  {:.2f} %\n", 100 * policy["min_gain"].get<double>());
  fmt::print("pairs       {} of at most {}, after {} calibration pairs\n", comparison.pairs.size(),
             policy["max_pairs"].get<int>(), comparison.calibration_pairs.size());
  if (comparison.calibration.pairs > 0) {
    fmt::print("noise       pairs of equal builds spread by {:.2f} %; smallest detectable gain {:.2f} %\n",
               100 * comparison.calibration.pair_spread, 100 * comparison.calibration.minimum_detectable_gain);
  }
  if (!comparison.pairs.empty()) {
    fmt::print("time        base {:.4g} us, candidate {:.4g} us per call (measured, last pair)\n",
               1e6 * comparison.pairs.back().base_seconds, 1e6 * comparison.pairs.back().candidate_seconds);
  }
  fmt::print("record      {}  {:.1f} s  ${:.4f}\n", record["id"].get<std::string>(), record["seconds"].get<double>(),
             record["cost"]["total"].get<double>());
  for (const std::string& note : report.notes) fmt::print("note        {}\n", note);
  if (comparison.ending != Ending::decided) {
    fmt::print("why         {}\n", comparison.problem.message);
    if (!comparison.problem.fix.empty()) fmt::print("fix         {}\n", comparison.problem.fix);
  }
}

int run(Flags flags) {
  flags.request.block_seconds = flags.block_ms * 1e-3;
  Progress progress(workflow::compare_steps, flags.quiet);
  const auto report = workflow::run_compare(flags.request, progress);
  progress.done();
  if (!report) {
    if (flags.json) {
      std::cout << Json{{"verdict", "COULD NOT RUN"}, {"problem", report.error().message}, {"fix", report.error().fix}}
                       .dump(2, ' ', false, Json::error_handler_t::replace)
                << "\n";
    }
    std::cerr << "cudadent compare: " << report.error().to_string() << "\n";
    return report.error().file.empty() ? 3 : 2;  // nothing is known about the candidate; a file's mistake is the user's
  }
  if (flags.json) {
    Json json = report->record;
    json["notes"] = report->notes;
    std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    print_report(*report);
  }
  return report->comparison.exit_code();
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("compare", "Is a candidate faster than the base, by enough, for sure?");
  command->footer(
      "The candidate passes the correctness gate first; a wrong one is not timed. Then equal builds are compared\n"
      "(A/A): the noise of this machine decides which gains can be seen at all, and a least gain below that is\n"
      "refused. Then pairs of fresh processes run both versions in ABBA blocks on the same new inputs, 6 to 24 of\n"
      "them, until a test that is valid at every look has decided.\n\n"
      "  KEEP          the lower bound is above 0 and the mean gain is at least the least gain   exit code 0\n"
      "  REVERT        the upper bound is below the least gain, or the candidate failed          exit code 1\n"
      "  INCONCLUSIVE  neither; also refused thresholds, preemption, interruption                exit code 3\n\n"
      "Examples:\n"
      "  cudadent compare                                  the working tree against HEAD\n"
      "  cudadent compare --base v1.0 --candidate HEAD     two commits, in worktrees under .cudadent/\n"
      "  cudadent compare --phase memory --note 'swizzled shared memory'\n"
      "  cudadent compare --final --min-gain 0.1           a claim: new seeds, the lower bound must reach 10 %");
  CompareRequest& request = flags->request;
  command->add_option("--base", request.base, "Commit, or directory of a kernel project")->capture_default_str();
  command->add_option("--candidate", request.candidate, "Commit, directory, or . for the working tree")
      ->capture_default_str();
  command->add_option("project,--project", request.project, "Directory with cudadent.toml")->capture_default_str();
  command->add_option("--workload", request.workload, "Workload to time (default: the project's target)");
  command->add_option("--phase", request.phase, "Takes this phase's least gain from the project")
      ->capture_default_str();
  command->add_option("--min-gain", request.min_gain, "Least gain worth keeping, 0.02 for 2 % (instead of --phase)")
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--index", request.index, "Which comparison of its run this is (default: counted)")
      ->check(CLI::Range(1, 1000000));
  command->add_option("--run", request.run, "Name of the run (default: CUDADENT_RUN, else the UTC day)");
  command->add_option("--note", request.note, "What the change is about, for the summary");
  command->add_option("--block-ms", flags->block_ms, "Shortest timed block in milliseconds")
      ->check(CLI::Range(2.0, 1000.0))
      ->capture_default_str();
  command->add_option("--max-pairs", request.max_pairs, "Most pairs")->check(CLI::Range(6, 24))->capture_default_str();
  command->add_option("--limit", request.limit_seconds, "Most seconds to measure")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command->add_option("--seed", request.seed, "Seed of the inputs (default: a new one)");
  command->add_flag("--final", request.final_claim,
                    "A final claim: KEEP needs the lower bound to reach the least gain");
  command->add_flag("--resume", request.resume, "Go on with an unfinished comparison of the same two versions");
  command->add_flag("--json", flags->json, "The record with every sample, as JSON on stdout");
  command->add_flag("--quiet", flags->quiet, "No progress on stderr");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
