// cudadent first-light: everything about a card in one command, with a budget.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/first_light/bundle.hpp"
#include "workflow/first_light/first_light.hpp"
#include "workflow/output/output.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::FirstLightRequest request;
  std::string verify;
  bool plan = false;
  bool quiet = false;
  JsonFlag json;
};

int verify(const Flags& flags) {
  const auto check = workflow::verify_bundle(flags.verify);
  if (!check) return fail("first-light", flags.json, check.error());
  const bool whole = check->problems.empty();
  const int code = whole ? 0 : 1;
  const std::string next = whole ? "cmake --build build/release --target measured" : "cudadent first-light";
  if (flags.json) {
    std::cout << bundle_json(answer_of("first-light", flags.json, code, whole ? "" : "usage.bundle", next), *check);
    return code;
  }
  for (const std::string& problem : check->problems) fmt::print("{}\n", problem);
  fmt::print("{}{} files as listed, SHA-256 of the list {}\n",
             check->rehearsal ? "REHEARSAL, never run on a card: " : "", check->files, check->sha256);
  fmt::print("{}", last_line(whole ? "the bundle verifies" : "the bundle does not verify", next));
  return code;
}

int run(const Flags& flags) {
  if (!flags.verify.empty()) return verify(flags);
  if (const auto checked = workflow::check_first_light(flags.request); !checked)
    return fail("first-light", flags.json, checked.error());
  if (flags.plan) {
    fmt::print("{}", first_light_plan(flags.request));
    return 0;
  }
  if (!flags.quiet) std::cerr << first_light_plan(flags.request);
  Progress progress(workflow::first_light_steps(), flags.quiet);
  const auto report = run_first_light(flags.request, progress);
  if (!report) return fail("first-light", flags.json, report.error());
  const int code = exit_code(report->outcome);
  const std::string next = "cudadent first-light --verify " + report->bundle;
  if (flags.json) {
    std::cout << first_light_json(answer_of("first-light", flags.json, code, report->code, next), *report);
  } else {
    std::cout << first_light_text(*report) << last_line(report->summary, next);
  }
  return code;
}

constexpr const char* manual =
    R"(Everything that is to be known of a card, once, within a time and a budget: the doctor, every shipped attention
kernel against fp64, the gates of three projects, our kernels' times beside torch's, FlashAttention-2's and FlashInfer's
where they are installed, and counters where the card lets us read them. Each result stands beside its prediction
(docs/predictions) as long as that is of the same kernel.
What it finds is written to a bundle, a directory whose every file is listed with its SHA-256; --verify checks one. Send
the whole directory back. Whatever ends the run (a preempted machine, no money left, a full disk) leaves a bundle that
verifies; --resume goes on with it.
The commands --machine-start, --machine-status and --machine-stop are your own, run by a shell; the machine is stopped
once, at the end, also when something failed, but not when you interrupt it or when it goes away by itself.
On the virtual driver (--device rehearsal:cuda:0) all of this is a rehearsal: no figure of it is ever one of a card.
Exit codes: 0 all done, 1 a kernel is wrong, 2 usage, 3 something was left out or degraded, or a rehearsal, 4 no card.

Examples:
  cudadent first-light --price 0.71 --budget 0.25 --machine-stop "gcloud compute instances stop my-l4"
  cudadent first-light --plan --price 0.71
  cudadent first-light --device rehearsal:cuda:0 --quick)";

}  // namespace

Command first_light_command() {
  auto flags = std::make_shared<Flags>();
  workflow::FirstLightRequest& request = flags->request;
  return {
      .name = "first-light",
      .about = "All that is to be known of a card, in one command with a budget",
      .manual = manual,
      .options = {{.names = "--device",
                   .value = &request.device,
                   .about = "cuda:<n>, or rehearsal:cuda:<n>",
                   .shows_default = true},
                  {.names = "--minutes",
                   .value = &request.minutes,
                   .about = "The most it may take",
                   .shows_default = true,
                   .is_positive = true},
                  {.names = "--price",
                   .value = &request.price_per_hour,
                   .about = "Dollars an hour of the machine",
                   .is_positive = true},
                  {.names = "--budget",
                   .value = &request.budget,
                   .about = "The most dollars it may cost; wants --price",
                   .is_positive = true},
                  {.names = "--bundle",
                   .value = &request.bundle,
                   .about = "Directory for the results (default: first-light-<time>)"},
                  {.names = "--resume", .value = &request.resume, .about = "Go on with the bundle of a stopped run"},
                  {.names = "--machine-status",
                   .value = &request.machine.status,
                   .about = "Your command that tells whether the machine runs (exit code 0)"},
                  {.names = "--machine-start", .value = &request.machine.start, .about = "Your command to start it"},
                  {.names = "--machine-stop", .value = &request.machine.stop, .about = "Your command to stop it"},
                  {.names = "--send",
                   .value = &request.send,
                   .about = "Your command that carries $FIRST_LIGHT_BUNDLE away before the stop"},
                  {.names = "--attention",
                   .value = &request.attention,
                   .about = "Another attention project to gate and profile"},
                  {.names = "--quick", .value = &request.quick, .about = "A handful of problems, for rehearsals"},
                  {.names = "--steps",
                   .value = &request.only,
                   .about = "Only these, a comma between two (--plan lists them)",
                   .separator = ','},
                  {.names = "--plan", .value = &flags->plan, .about = "Say what it would do and cost, and end"},
                  {.names = "--verify", .value = &flags->verify, .about = "Check the bundle in this directory"},
                  json_option(flags->json, "The report as JSON on stdout"),
                  {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
      .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
