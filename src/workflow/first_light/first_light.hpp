// First light: all that is to be known of a card, in one command with a time and a budget. Each step is a process of
// its own; what it printed goes into the bundle as soon as it has ended, so that whatever ends the run leaves a bundle
// that verifies. A machine that goes away is come back to with `resume`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct FirstLightRequest {
  std::string device = "cuda:0";
  std::string bundle{};  // directory; empty: first-light-<time>
  bool resume = false;   // goes on in `bundle`
  double minutes = 15;
  std::optional<double> budget{};   // $; unset: what the minutes cost
  double price_per_hour = 0;        // $ of the machine
  MachineCommands machine{};        // the user's own
  std::string send{};               // a command that carries the bundle away before the machine stops; empty: none
  std::string attention{};          // project to gate and profile; empty: the one beside this program
  bool quick = false;               // a handful of problems: for rehearsals
  std::vector<std::string> only{};  // names of steps; empty: all
};

enum class StepState { open, done, degraded, failed, left_out };
[[nodiscard]] const char* name_of(StepState state);

struct LightStep {
  std::string name{};
  std::string about{};
  StepState state = StepState::open;
  std::string why{};   // it is degraded, failed or was left out
  std::string file{};  // of the bundle, that has what it printed
  double seconds = 0;
};

// A problem of our kernels, as it was foretold and as it came out; never of a rehearsal.
struct BesidePrediction {
  std::string problem{};
  double predicted_us = 0, measured_us = 0;
  bool stale = false;  // the prediction is of another kernel: not compared
};

struct FirstLightReport {
  std::string device{}, card{};  // "NVIDIA L4"
  std::string bundle{}, bundle_sha256{};
  bool rehearsal = false;
  std::vector<LightStep> steps{};
  std::vector<BesidePrediction> beside{};
  std::vector<std::string> notes{};
  Outcome outcome = Outcome::could_not_run;
  std::string summary{}, code{};
  double seconds = 0, dollars = 0;  // of all sessions
  std::string stopped{};            // what became of the machine: "stopped by ...", "left running"
};

[[nodiscard]] int first_light_steps();
// What is wrong with a request before anything is begun: a step that is none, a budget without a price, no card.
[[nodiscard]] Result<Done> check_first_light(const FirstLightRequest& request);
// A diagnostic only where there is no bundle at all.
[[nodiscard]] Result<FirstLightReport> run_first_light(const FirstLightRequest& request, Progress& progress);
[[nodiscard]] std::string first_light_text(const FirstLightReport& report);
// What it will do, how long that takes and what it costs, before anything runs.
[[nodiscard]] std::string first_light_plan(const FirstLightRequest& request);

}  // namespace flashmoe::workflow
