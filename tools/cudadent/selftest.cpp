// cudadent selftest: the tool's own error rates, measured.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/selftest/selftest.hpp"

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
  if (flags.json) {
    std::cout << to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    std::cout << report_text(report);
  }
  if (!flags.record_in.empty()) {
    Json record = to_json(report);
    record["kind"] = "selftest";
    const auto written = workflow::Journal(flags.record_in).append(std::move(record));
    if (!written) {
      std::cerr << "cudadent selftest: " << written.error().to_string() << "\n";
      return 1;
    }
  }
  return report.exit_code();
}

}  // namespace

void add_selftest(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("selftest", "The tool's own error rates: false keeps, power, cheats");
  command->footer(
      "  simulation  runs of 20 equal candidates under the noise of a rented machine: how many keep something false?\n"
      "              And how often is a real gain found, by spread and size?\n"
      "  real        this machine, with real processes: equal builds, and builds slowed down by 1, 2 and 5 %\n"
      "  cheats      kernels that pretend: each must be refused\n"
      "Exit codes: 0 everything holds, 1 something does not, 3 only a goal is missed.\n\n"
      "Examples:\n"
      "  cudadent selftest --quick\n"
      "  cudadent selftest --only simulation --seed 7 --json");
  command->add_flag("--quick", flags->options.quick, "Fewer runs, one injected slowdown");
  command->add_option("--seed", flags->options.seed, "Seed of the simulation")->capture_default_str();
  command->add_option("--only", flags->only, "Only these parts: simulation, real, cheats")
      ->check(CLI::IsMember({"simulation", "real", "cheats"}))
      ->delimiter(',');
  command->add_option("--limit", flags->options.real_limit_seconds, "Most seconds for the real processes")
      ->check(CLI::Range(1.0, 1e5))
      ->capture_default_str();
  command->add_option("--record", flags->record_in, "Also write a record into this kernel project's journal")
      ->type_name("DIR");
  command->add_flag("--json", flags->json, "Every figure, as JSON on stdout");
  command->add_flag("--quiet", flags->quiet_progress, "No progress on stderr");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
