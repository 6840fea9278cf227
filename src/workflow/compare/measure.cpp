#include "workflow/compare/measure.hpp"

#include <chrono>
#include <csignal>
#include <memory>
#include <utility>

#include "support/process.hpp"
#include "workflow/machine/machine.hpp"
#include "workflow/runner/contest.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

using Clock = std::chrono::steady_clock;

// A Python reference takes seconds to start (it imports a framework), so it judges some pairs only; a C++ one all.
constexpr int python_reference_every = 8;
constexpr double reference_seconds_per_pair = 0.25;
// Of computing, for each pair: a fresh process must fill its caches and wake up the units it uses.
constexpr double warm_up_seconds = 0.03;

PairOutcome stopped() {
  if (interrupt_signal() == SIGTERM) {
    return {.problem = PairProblem::preempted,
            .diagnostic = {.message = "the machine asked to stop (SIGTERM)",
                           .fix = "run the same command with --resume when it is back"}};
  }
  return {.problem = PairProblem::interrupted,
          .diagnostic = {.message = "interrupted", .fix = "run the same command with --resume to go on"}};
}

AbbaBlock swapped(const AbbaBlock& block) {
  return {block.candidate_first, block.base_first, block.base_second, block.candidate_second, block.processor_clock};
}

PairOutcome failed(const ContestError& error, bool swap) {
  if (interrupted()) return stopped();
  const bool candidate = (error.side == Side::candidate) != swap;
  return {.problem = candidate ? PairProblem::candidate_failed : PairProblem::base_failed,
          .diagnostic = error.error.diagnostic};
}

}  // namespace

MeasuredPair measure_blocks(const PairSetup& setup, int pair_index) {
  if (interrupted()) return {stopped()};
  const bool swap = pair_index % 2 == 1;
  const bool judge_this =
      setup.reference && (setup.reference->kind != CallableKind::python || pair_index % python_reference_every == 0);
  Contest contest(*setup.project, {.seed = mix_seed(setup.seed, static_cast<std::uint64_t>(pair_index)),
                                   .block_seconds = setup.block_seconds,
                                   .warm_up_seconds = warm_up_seconds,
                                   .reference_seconds = reference_seconds_per_pair,
                                   .base_is_kernel = true});
  const CpuState state_before = cpu_state();
  ContestError error = contest.start(swap ? setup.candidate : setup.base, swap ? setup.base : setup.candidate,
                                     judge_this ? setup.reference : std::nullopt);
  if (error.ok()) error = contest.open(setup.workload);
  if (error.ok() && pair_index == 0) error = contest.audit();
  if (!error.ok()) return {failed(error, swap)};
  std::vector<AbbaBlock> blocks;
  for (int i = 0; i < setup.blocks; ++i) {
    const Contest::Measured measured = contest.next();
    if (!measured.error.ok()) return {failed(measured.error, swap)};
    blocks.push_back(swap ? swapped(measured.block) : measured.block);
  }
  PairOutcome outcome;
  outcome.sample = pair_of(blocks);
  outcome.sample.before = state_before;
  outcome.sample.after = cpu_state();
  return {std::move(outcome), std::move(blocks)};
}

PairOutcome measure_pair(const PairSetup& setup, int pair_index) {
  return measure_blocks(setup, pair_index).outcome;
}

PairSource pair_source(PairSetup setup) {
  auto last_asked = std::make_shared<Clock::time_point>(Clock::now());
  return [setup = std::move(setup), last_asked](int pair_index) -> PairOutcome {
    const auto gone = [&](const PairOutcome& otherwise) -> PairOutcome {
      const auto answer = ask_machine(setup.project->machine, setup.project->directory);
      *last_asked = Clock::now();
      if (!answer || answer->state != MachineState::stopped) return otherwise;
      Diagnostic diagnostic = machine_is_stopped(setup.project->machine, *answer);
      diagnostic.fix += "; then run the same command with --resume";
      return {.problem = PairProblem::preempted, .diagnostic = diagnostic};
    };
    if (Clock::now() - *last_asked > std::chrono::duration<double>(ask_machine_above_seconds)) {
      PairOutcome state = gone({});
      if (state.problem != PairProblem::none) return state;
    }
    PairOutcome outcome = measure_pair(setup, pair_index);
    if (outcome.problem == PairProblem::candidate_failed || outcome.problem == PairProblem::base_failed) {
      return gone(outcome);
    }
    return outcome;
  };
}

}  // namespace flashmoe::workflow
