// cudadent optimize: one change at a time, kept or left on evidence, until there is a reason to stop.
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::OptimizeRequest request;
  int iterations = 0;
  std::optional<double> minutes{};
  JsonFlag json;
};

int run(Flags flags) {
  if (flags.iterations > 0) flags.request.max_iterations = flags.iterations;
  flags.request.max_minutes = flags.minutes;
  const auto report = workflow::run_optimize(flags.request);
  if (!report) return fail("optimize", flags.json, report.error());
  const bool kept = report->end != report->start;
  const int code = workflow::exit_code(kept ? workflow::Outcome::holds : workflow::Outcome::inconclusive);
  const std::string why = kept ? "" : workflow::codes::optimize_nothing_kept;
  if (flags.json) {
    std::cout << optimize_json(answer_of("optimize", flags.json, code, why, report->next), *report);
  } else {
    std::cout << optimize_text(*report) << last_line(kept ? "IMPROVED" : "NOTHING KEPT", report->next);
  }
  return code;
}

constexpr const char* manual =
    R"(Names the one bottleneck of the kernel at HEAD, makes one change of a tunable that should relieve it, passes the
gates, compares, and goes on from the better version: with a clock where it is faster for sure, on a virtual GPU
where the counter moved as far as foretold and the busiest SM has less to do. Nothing of your tree is touched;
versions are commits under refs/cudadent, and every iteration is a record. A loop that was killed goes on with
--run and its name.
Exit codes: 0 something was kept, 3 nothing was, 2 usage.

Examples:
  cudadent optimize examples/attention_journey --device virtual:l4 --iterations 20
  cudadent optimize --run optimize-2026-11-16T06:00:00Z)";

}  // namespace

Command optimize_command() {
  auto flags = std::make_shared<Flags>();
  workflow::OptimizeRequest& request = flags->request;
  return {.name = "optimize",
          .about = "One change at a time, kept or left on evidence",
          .manual = manual,
          .options = {{.names = "project",
                       .value = &request.project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--device",
                       .value = &request.device,
                       .about = "cpu or virtual:<gpu> (default: FLASHMOE_DEVICE, else cpu)"},
                      {.names = "--run", .value = &request.run, .about = "Go on with the run of this name"},
                      {.names = "--iterations",
                       .value = &flags->iterations,
                       .about = "Most changes to try (default: thresholds.max_iterations)",
                       .range = {{1, 20}}},
                      {.names = "--minutes",
                       .value = &flags->minutes,
                       .about = "Most minutes (default: thresholds.max_minutes)",
                       .range = {{0.1, 1e5}}},
                      {.names = "--dollars",
                       .value = &request.max_dollars,
                       .about = "Most dollars, by the prices of [cost]",
                       .range = {{0.0, 1e6}}},
                      {.names = "--seed", .value = &request.seed, .about = "Seed of the inputs (default: a new one)"},
                      json_option(flags->json, "Every iteration as JSON on stdout"),
                      {.names = "--quiet", .value = &request.quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
