// cudadent selftest: the tool's own error rates, measured.
#include "workflow/selftest/selftest.hpp"

#include <algorithm>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::SelftestOptions options;
  std::vector<std::string> only;
  std::string record_in;
  JsonFlag json;
  bool quiet_progress = false;
};

std::string code_of(const workflow::SelftestReport& report) {
  namespace codes = workflow::codes;
  switch (report.outcome()) {
    case workflow::Outcome::holds:
      return "";
    case workflow::Outcome::fails:
      return codes::selftest_does_not_hold;
    case workflow::Outcome::inconclusive:
      return report.was_interrupted ? codes::interrupted : codes::selftest_goal_missed;
    case workflow::Outcome::could_not_run:
      break;
  }
  return codes::could_not_run;
}

int run(Flags flags) {
  auto& options = flags.options;
  if (!flags.only.empty()) {
    const auto asked = [&](const char* part) {
      return std::find(flags.only.begin(), flags.only.end(), part) != flags.only.end();
    };
    options.simulated = asked("simulation");
    options.real = asked("real");
    options.cheats = asked("cheats");
    options.noise = asked("noise");
  }
  Progress progress(workflow::selftest_steps(options), flags.quiet_progress);
  const auto report = workflow::run_selftest(options, progress);
  progress.done();
  const workflow::Record record = record_of(report);
  if (!flags.record_in.empty()) {
    const auto written = workflow::Journal(flags.record_in).append(record);
    if (!written) return fail("selftest", flags.json, written.error());
  }
  const int code = exit_code(report.outcome());
  const std::string next = code == 0 ? "cudadent gate" : same_command_again();
  if (flags.json) {
    std::cout << selftest_json(answer_of("selftest", flags.json, code, code_of(report), next), record);
  } else {
    std::cout << report_text(report) << last_line(verdict_text(report), next);
  }
  return code;
}

constexpr const char* manual =
    R"(  simulation  runs of 20 equal candidates under the noise of a rented machine: how many keep something false?
              And how often is a real gain found, by spread and size?
  real        this machine, with real processes: equal builds, and builds slowed down by 1, 2 and 5 %
  cheats      kernels that pretend: each must be refused; honest ones, awkward or not, must pass
  noise       (only when named) this machine: how far equal builds of two examples spread, how often the performance
              gate is wrong about kernels of known speed; some minutes, with nothing else running
Exit codes: 0 everything holds, 1 something does not, 3 only a goal is missed, 4 a part could not run.

Examples:
  cudadent selftest --quick
  cudadent selftest --only simulation --seed 7 --json)";

}  // namespace

Command selftest_command() {
  auto flags = std::make_shared<Flags>();
  return {
      .name = "selftest",
      .about = "The tool's own error rates: false keeps, power, cheats",
      .manual = manual,
      .options =
          {{.names = "--quick", .value = &flags->options.quick, .about = "Fewer runs, one slowdown, fewer cheats"},
           {.names = "--seed", .value = &flags->options.seed, .about = "Seed of the simulation", .shows_default = true},
           {.names = "--only",
            .value = &flags->only,
            .about = "Only these parts: simulation, real, cheats, noise",
            .choices = {"simulation", "real", "cheats", "noise"},
            .separator = ','},
           {.names = "--limit",
            .value = &flags->options.real_limit_seconds,
            .about = "Most seconds for the real processes",
            .shows_default = true,
            .range = {{1.0, 1e5}}},
           {.names = "--record",
            .value = &flags->record_in,
            .about = "Also write a record into this kernel project's journal",
            .type_name = "DIR"},
           json_option(flags->json, "Every figure, as JSON on stdout"),
           {.names = "--quiet", .value = &flags->quiet_progress, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
