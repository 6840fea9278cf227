// cudadent optimize: one change at a time, kept or left on evidence, until there is a reason to stop.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/agents/agent.hpp"
#include "workflow/agents/person.hpp"
#include "workflow/agents/ray_workers.hpp"
#include "workflow/optimize/optimize.hpp"
#include "workflow/optimize/shard.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::OptimizeRequest request;
  int iterations = 0;
  std::optional<double> minutes{};
  workflow::AgentOptions agent;
  double agent_minutes = 10;
  bool ask = false, no_patterns = false;
  std::optional<std::string> shard;  // an empty one is a variable that was not set, not a wish for none
  std::string workers;
  JsonFlag json;
};

// Who proposes; unset: the rules.
Result<workflow::Propose> proposer_of(const Flags& flags) {
  if (!flags.agent.command.empty()) {
    const auto project = workflow::load_project(flags.request.project);
    if (!project) return project.error();
    workflow::AgentOptions agent = flags.agent;
    agent.directory = project->directory;
    agent.limit = std::chrono::seconds(std::lround(60 * flags.agent_minutes));
    return workflow::propose_by_agent(std::move(agent));
  }
  if (!flags.ask) return workflow::Propose{};
  const auto project = workflow::load_project(flags.request.project);
  if (!project) return project.error();
  return workflow::propose_by_person(*project, std::cin, std::cerr);
}

int count(const Flags& flags) {
  const auto report = workflow::count_share(flags.request);
  if (!report) return fail("optimize", flags.json, report.error());
  if (flags.json) {
    std::cout << shard_json(answer_of("optimize", flags.json, 0, "", report->next), *report);
  } else {
    std::cout << last_line(
        fmt::format("{} of a batch of {} counted, {} open", report->counted, report->batch, report->open),
        report->next);
  }
  return 0;
}

// What stands behind "ray:".
std::string workers_of(const Flags& flags) {
  return flags.workers.size() > 4 ? flags.workers.substr(4) : "";
}

bool is_workers(const std::string& text) {
  return text.empty() || text == "ray" || (text.starts_with("ray:") && text.size() > 4);
}

int run(Flags flags) {
  if (!is_workers(flags.workers)) {
    return fail("optimize", flags.json,
                {.message = "'" + flags.workers + "' are no workers",
                 .fix = "ray, ray:4 for four of them, or ray:ADDRESS of a cluster",
                 .code = workflow::codes::usage_shard});
  }
  if (flags.shard) {
    const auto shard = workflow::parse_shard(*flags.shard);
    if (!shard) return fail("optimize", flags.json, shard.error());
    flags.request.shard = *shard;
    if (shard->index > 0) return count(flags);
  }
  auto proposer = proposer_of(flags);
  if (!proposer) return fail("optimize", flags.json, proposer.error());
  flags.request.propose = std::move(*proposer);
  if (flags.iterations > 0) flags.request.max_iterations = flags.iterations;
  flags.request.max_minutes = flags.minutes;
  flags.request.patterns = !flags.no_patterns;
  const auto report = flags.workers.empty() ? workflow::run_optimize(flags.request)
                                            : workflow::optimize_with_ray(flags.request, workers_of(flags));
  if (!report) return fail("optimize", flags.json, report.error());
  const bool waits = report->waiting > 0;
  const bool done = flags.request.shard ? !waits : report->end != report->start;
  const int code = workflow::exit_code(done ? workflow::Outcome::holds : workflow::Outcome::inconclusive);
  const std::string why = done    ? ""
                          : waits ? workflow::codes::optimize_waiting
                                  : workflow::codes::optimize_nothing_kept;
  if (flags.json) {
    std::cout << optimize_json(answer_of("optimize", flags.json, code, why, report->next), *report);
  } else {
    std::cout << optimize_text(*report) << last_line(verdict_of(*report), report->next);
  }
  return code;
}

constexpr const char* manual =
    R"(Names the one bottleneck of the kernel at HEAD, makes one change of a tunable that should relieve it, passes the
gates, compares, and goes on from the better version: with a clock where it is faster for sure, on a virtual GPU
where the counter moved as far as foretold and the busiest SM has less to do. Nothing of your tree is touched;
versions are commits under refs/cudadent, and every iteration is a record. A loop that was killed goes on with
--run and its name. Who proposes: the rules and a search over [tunables]; you, with --ask; or a command of yours,
with --agent: it gets the bottleneck as JSON and the version as plain files, and answers with a patch
(docs/agents.md).
On a virtual GPU a run can be shared: --shard 0/N draws a batch of candidates, records it and waits; --shard 1/N to
N/N each count their part, in a clone of their own or here; cudadent journal merge brings the counts together, and
--shard 0/N goes on from them, with the decisions of one process. --workers ray does all of that on a Ray cluster,
which it starts here, on loopback alone, or joins (docs/scale.md).
Exit codes: 0 something was kept, 3 nothing was, 2 usage. With --shard: 0 it is done, 3 it waits for counts.

Examples:
  cudadent optimize examples/attention_journey --device virtual:l4 --iterations 20
  cudadent optimize --agent './agent.py' --iterations 5
  cudadent optimize --device virtual:l4 --run big --seed 7 --shard 1/8
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
                       .about = "cpu, virtual:<gpu> or cuda:<n> (default: FLASHMOE_DEVICE, else cpu)"},
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
                      {.names = "--target",
                       .value = &request.target,
                       .about = "Stop at this many times the baseline's speed (default: the last of thresholds.ladder)",
                       .range = {{0.0, 1e6}}},
                      {.names = "--worth",
                       .value = &request.dollars_a_per_cent,
                       .about = "Dollars that a gain of 1 % is worth: stop when the next iteration costs more",
                       .range = {{0.0, 1e6}}},
                      {.names = "--ask",
                       .value = &flags->ask,
                       .about = "You choose what is tried",
                       .alternatives = "proposer"},
                      {.names = "--agent",
                       .value = &flags->agent.command,
                       .about = "A command that proposes: JSON on its stdin, a patch or edited files out",
                       .alternatives = "proposer"},
                      {.names = "--agent-minutes",
                       .value = &flags->agent_minutes,
                       .about = "Most minutes for one proposal",
                       .shows_default = true,
                       .range = {{0.01, 1e4}}},
                      {.names = "--no-patterns",
                       .value = &flags->no_patterns,
                       .about = "Leave out what was learned (cudadent patterns)"},
                      {.names = "--batch",
                       .value = &request.batch,
                       .about = "Candidates that are counted on a virtual GPU before one is tried",
                       .shows_default = true,
                       .range = {{1, 10000}}},
                      {.names = "--shard",
                       .value = &flags->shard,
                       .about = "Share the run: 0/N decides, I/N counts its part; needs --run and --seed",
                       .type_name = "I/N",
                       .alternatives = "sharing"},
                      {.names = "--workers",
                       .value = &flags->workers,
                       .about = "Count candidates as Ray tasks: ray, ray:4 for four workers, ray:ADDRESS of a cluster",
                       .alternatives = "sharing"},
                      {.names = "--seed", .value = &request.seed, .about = "Seed of the inputs (default: a new one)"},
                      json_option(flags->json, "Every iteration as JSON on stdout"),
                      {.names = "--quiet", .value = &request.quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
