// cudadent selftest: the tool's own error rates, measured.
#include "workflow/selftest/selftest.hpp"

#include <algorithm>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::SelftestOptions options;
  std::vector<std::string> only;
  std::string record_in;
  bool json = false;
  bool quiet_progress = false;
};

int run(Flags flags) {
  auto& options = flags.options;
  if (!flags.only.empty()) {
    const auto asked = [&](const char* part) {
      return std::find(flags.only.begin(), flags.only.end(), part) != flags.only.end();
    };
    options.simulated = asked("simulation");
    options.real = asked("real");
    options.cheats = asked("cheats");
  }
  Progress progress(workflow::selftest_steps(options), flags.quiet_progress);
  const auto report = workflow::run_selftest(options, progress);
  progress.done();
  const workflow::Record record = record_of(report);
  std::cout << (flags.json ? workflow::selftest_json(record) : report_text(report));
  if (!flags.record_in.empty()) {
    const auto written = workflow::Journal(flags.record_in).append(record);
    if (!written) {
      std::cerr << "cudadent selftest: " << written.error().to_string() << "\n";
      return 1;
    }
  }
  return report.exit_code();
}

constexpr const char* manual =
    R"(  simulation  runs of 20 equal candidates under the noise of a rented machine: how many keep something false?
              And how often is a real gain found, by spread and size?
  real        this machine, with real processes: equal builds, and builds slowed down by 1, 2 and 5 %
  cheats      kernels that pretend: each must be refused; honest ones, awkward or not, must pass
Exit codes: 0 everything holds, 1 something does not, 3 only a goal is missed.

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
            .about = "Only these parts: simulation, real, cheats",
            .choices = {"simulation", "real", "cheats"},
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
           {.names = "--json", .value = &flags->json, .about = "Every figure, as JSON on stdout"},
           {.names = "--quiet", .value = &flags->quiet_progress, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
