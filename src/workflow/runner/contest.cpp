#include "workflow/runner/contest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "support/clock.hpp"
#include "workflow/runner/inputs.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

constexpr int calibration_sets = 4;
constexpr int max_sets = 4096;
constexpr int max_choices = 3;                      // of their number
constexpr double max_set_bytes = 96.0 * (1 << 20);  // of all sets of one side
constexpr double max_block_seconds = 1.0;           // of the slower side
constexpr double max_rehearsed_seconds = 0.02;    // the same where a virtual GPU plays the card: its times are nobody's
constexpr double restart_warm_up_seconds = 0.03;  // of computing: caches, and the units it uses
constexpr int audit_rounds = 3;
constexpr int max_audit_rounds = 24;  // when in doubt: a disturbed round says nothing
constexpr int max_draws = 8;          // calls of a block whose outputs are judged
constexpr milliseconds unasked_watch{8};
constexpr std::uint64_t blocks_per_unasked_watch = 4;  // on average: nobody can know when
constexpr std::uint64_t blocks_per_hard_block = 4;     // the same
// Repeating an input, or calling more often, may not make a call cheaper than this share of a fresh one.
constexpr double least_repeat_share = 0.5;
// Of L2, for the inputs and outputs of a block whose inputs are to lie there.
constexpr double warm_share_of_l2 = 0.5;
constexpr int other_times_rounds = 5;

milliseconds in_milliseconds(double seconds) {
  return milliseconds(static_cast<long>(std::ceil(seconds * 1e3)));
}

int drawn(int count) {
  return static_cast<int>(fresh_seed() % static_cast<std::uint64_t>(count));
}

ContestError refused(Side side, std::string message, std::string fix) {
  return {side, {Failure::refused, {.message = std::move(message), .fix = std::move(fix)}}};
}

}  // namespace

ContestError Contest::start(const Runnable& base, const Runnable& candidate, const std::optional<Runnable>& reference) {
  threads_ = std::max(1, candidate.threads);
  base_runnable_ = base;
  candidate_runnable_ = candidate;
  if (reference) {
    reference_.emplace();
    if (RunError error = reference_->start(project_, *reference, true); error.failure != Failure::none) {
      return {Side::base, error};
    }
  }
  return start_sides();
}

ContestError Contest::start_sides() {
  base_ = Session();
  candidate_ = Session();
  // The kernel's process is the last: nothing of it runs while the others start.
  if (RunError error = base_.start(project_, base_runnable_, !options_.base_is_kernel);
      error.failure != Failure::none) {
    return {Side::base, error};
  }
  return {Side::candidate, candidate_.start(project_, candidate_runnable_, false)};
}

ContestError Contest::bind_sides(int sets) {
  sets_ = sets;
  for (const Side side : {Side::base, Side::candidate}) {
    RunError error = session(side).bind(project_, workload_.values, workload_.name, sets);
    if (error.failure != Failure::none) return {side, error};
  }
  return {};
}

ContestError Contest::warm_up(double seconds) {
  double warmed = 0;
  do {
    renew_inputs();
    for (const Side side : {Side::base, Side::candidate}) {
      const Timed block = timed(side, sets_, false);
      if (!block.error.ok()) return block.error;
      warmed += (block.by_card ? block.waited_seconds_per_call : block.decisive_seconds()) * sets_;
    }
  } while (warmed < seconds);
  return {};
}

ContestError Contest::restart() {
  if (ContestError error = start_sides(); !error.ok()) return error;
  if (ContestError error = bind_sides(sets_); !error.ok()) return error;
  return warm_up(restart_warm_up_seconds);
}

void Contest::renew_inputs() {
  ++round_;
  for (int set = 0; set < sets_; ++set) {
    candidate_.fill(set, mix_seed(mix_seed(options_.seed ^ secret_, round_), static_cast<std::uint64_t>(set)));
    base_.copy_inputs(set, candidate_, set);
  }
}

ContestError Contest::estimate(Side side, double& seconds_per_call, double& waited_per_call) {
  seconds_per_call = 0;
  for (int round = 0; round < 3; ++round) {
    renew_inputs();
    const Timed block = timed(side, sets_, round == 0);
    if (!block.error.ok()) return block.error;
    const double seconds = block.decisive_seconds();
    seconds_per_call = round == 0 ? seconds : std::min(seconds_per_call, seconds);
    waited_per_call = std::max(waited_per_call, block.waited_seconds_per_call);
    if (block.waited_seconds_per_call > 0.2) break;
  }
  return {};
}

// Of few calls most of the time is what surrounds them, so it is asked again with as many as that seems to want.
ContestError Contest::choose_sets() {
  const double set_bytes = static_cast<double>(candidate_.layout().input_bytes + candidate_.layout().output_bytes + 1);
  for (int round = 0; round < max_choices; ++round) {
    double base_seconds = 0;
    double candidate_seconds = 0;
    double waited = 0;
    if (ContestError error = estimate(Side::base, base_seconds, waited); !error.ok()) return error;
    if (ContestError error = estimate(Side::candidate, candidate_seconds, waited); !error.ok()) return error;
    const double fast = std::max(1e-8, std::min(base_seconds, candidate_seconds));
    const double slow = std::max(1e-8, std::max(base_seconds, candidate_seconds));
    double wanted = std::min({std::ceil(1.2 * options_.block_seconds / fast), std::floor(max_block_seconds / slow),
                              std::floor(max_set_bytes / set_bytes), static_cast<double>(max_sets)});
    if (const double l2 = warm_share_of_l2 * static_cast<double>(candidate_.l2_bytes()); on_card() && l2 > 0)
      wanted = std::min(wanted, std::floor(l2 / set_bytes));
    if (on_card() && candidate_runnable_.limit_factor > 1)
      wanted = std::clamp(std::floor(max_rehearsed_seconds / waited), 4.0, std::max(4.0, wanted));
    const int sets = std::max(1, static_cast<int>(wanted));
    const bool enough = round > 0 && sets <= sets_ + sets_ / 4;
    if (enough) return {};
    if (ContestError error = bind_sides(sets); !error.ok()) return error;
  }
  return {};
}

ContestError Contest::open(const Workload& workload) {
  workload_ = workload;
  reference_spent_seconds_ = {};
  used_ = {};
  outputs_compared_ = 0;
  if (ContestError error = bind_sides(calibration_sets); !error.ok()) return error;
  if (reference_) {
    RunError error = reference_->bind(project_, workload.values, workload.name, 1);
    if (error.failure != Failure::none) return {Side::base, error};
  }
  if (ContestError error = choose_sets(); !error.ok()) return error;
  return warm_up(options_.warm_up_seconds);
}

Contest::Timed Contest::timed(Side side, int count, bool judged, Timing timing) {
  Session& runs = session(side);
  const Runnable& runnable = side == Side::base ? base_runnable_ : candidate_runnable_;
  runs.seal_inputs_and_poison();
  // The limit of one call holds for one call; a long block may take its calls' worth.
  const double limit_seconds = runnable.limit_factor * project_.call_limit_seconds * (1 + count / 16.0);
  const Block block = runnable.by_events ? runs.time(count, timing, in_milliseconds(limit_seconds))
                                         : runs.run(0, count, in_milliseconds(limit_seconds));
  Timed result;
  result.error = {side, block.error};
  if (!block.ok()) return result;
  result.seconds_per_call = result.waited_seconds_per_call = block.seconds / count;
  result.cpu_seconds_per_call = (block.cpu_seconds < 0 ? block.seconds : block.cpu_seconds) / count;
  result.by_one_thread = block.by_one_thread;
  if (block.card_seconds) {
    result.seconds_per_call = *block.card_seconds / count;
    result.by_card = true;
  }
  if (is_kernel(side)) result.error = check_written(side, count);
  if (!result.error.ok()) return result;
  result.error = {side, runs.audit()};
  if (!result.error.ok() || !is_kernel(side)) return result;
  if (result.by_card) {  // its host code is ours
    if (judged) result.error = compare_with_reference(side, count);
    return result;
  }
  // Over all blocks of the workload, because the processor time of a short one is coarse.
  Used& used = used_[static_cast<std::size_t>(side)];
  used.seconds += block.seconds;
  used.cpu_seconds += block.cpu_seconds;
  const double most_cpu = 1.15 * used.seconds * threads_ + 0.004;
  if (used.cpu_seconds > most_cpu) {
    result.error =
        refused(side,
                fmt::format("{} used {:.1f} processors in workload {} though {} thread{} allowed", runs.label(),
                            used.cpu_seconds / used.seconds, workload_.name, threads_, threads_ == 1 ? " is" : "s are"),
                "use at most call->threads threads");
    return result;
  }
  if (judged) result.error = compare_with_reference(side, count);
  return result;
}

ContestError Contest::check_written(Side side, int count) const {
  const Session& runs = session(side);
  const auto& tensors = runs.layout().tensors;
  for (int set = count; set-- > 0;) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      const auto position = find_unwritten(tensors[i], runs.tensor(set, i));
      if (!position) continue;
      return refused(side,
                     fmt::format("{} left {}{} unwritten in a timed block of workload {} (call {} of {})", runs.label(),
                                 tensors[i].name, coordinates_text(*position), workload_.name, set + 1, count),
                     "compute every output in every call: a timed call gets new inputs and a poisoned output");
    }
  }
  return {};
}

ContestError Contest::compare_with_reference(Side side, int count) {
  if (!reference_) return {};
  const double spent_seconds = reference_spent_seconds_[static_cast<std::size_t>(side)];
  // A slow reference is asked less often once its time is used up, but nobody can know when.
  if (spent_seconds > options_.reference_seconds && fresh_seed() % 8 != 0) return {};
  // Which calls are compared is not known before they are done.
  return judge_by_reference(side, drawn(count), count);
}

ContestError Contest::judge_by_reference(Side side, int set, int count, const std::string& hard) {
  Session& runs = session(side);
  reference_->copy_inputs(0, runs, set);
  reference_->seal_inputs_and_poison();
  const Block block = reference_->run(0, 1, in_milliseconds(std::max(60.0, project_.call_limit_seconds)));
  if (!block.ok()) return {Side::base, block.error};
  reference_spent_seconds_[static_cast<std::size_t>(side)] += block.seconds;
  const auto& tensors = runs.layout().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != TensorRole::output) continue;
    const Judgement judgement = judge(tensors[i], reference_->tensor(0, i), runs.tensor(set, i),
                                      project_.tensors[i].tolerance, hard == "large");
    if (judgement.ok()) continue;
    return refused(
        side,
        fmt::format("{} was right when checked but is wrong when timed, in workload {} (call {} of {}{}): {}",
                    runs.label(), workload_.name, set + 1, count, hard.empty() ? "" : ", with " + hard + " values",
                    describe(judgement)),
        "a result may depend on nothing but the inputs of its call: look for state kept between calls");
  }
  if (side == Side::candidate) ++outputs_compared_;
  return {};
}

// Both sides have just had the same inputs: what they agree on is right, or wrong on both; the reference, which takes
// its time, decides where they do not.
ContestError Contest::compare_sides(int count) {
  if (!reference_) return {};
  const auto& tensors = candidate_.layout().tensors;
  const int draws = std::min(count, max_draws);
  const int start = drawn(count);
  for (int draw = 0; draw < draws; ++draw) {
    // Spread over the block from a random start, so that none is drawn twice.
    const int set = (start + draw * count / draws) % count;
    bool agree = true;
    for (std::size_t i = 0; i < tensors.size() && agree; ++i) {
      if (tensors[i].role != TensorRole::output) continue;
      agree = judge(tensors[i], base_.tensor(set, i), candidate_.tensor(set, i), project_.tensors[i].tolerance).ok();
    }
    if (agree) {
      ++outputs_compared_;
      continue;
    }
    if (reference_spent_seconds_[static_cast<std::size_t>(Side::candidate)] > options_.reference_seconds) continue;
    if (ContestError error = judge_by_reference(Side::candidate, set, count); !error.ok()) return error;
  }
  return {};
}

ContestError Contest::judge_calls(int wanted, double limit_seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (reference_ && outputs_compared_ < wanted && seconds_since(start) < limit_seconds) {
    renew_inputs();
    const Timed block = timed(Side::candidate, sets_, false);
    if (!block.error.ok()) return block.error;
    for (int set = 0; set < sets_ && outputs_compared_ < wanted && seconds_since(start) < limit_seconds; ++set) {
      if (ContestError error = judge_by_reference(Side::candidate, set, sets_); !error.ok()) return error;
    }
  }
  return {};
}

// Inputs of timed calls are ordinary. Who leaves out what only hard ones need, once it has been called often enough to
// be timed, meets some here: in a block like all others, whose time is not used.
ContestError Contest::try_hard_values() {
  if (!reference_ || project_.hard_values.empty()) return {};
  const double spent_seconds = reference_spent_seconds_[static_cast<std::size_t>(Side::candidate)];
  if (spent_seconds > options_.reference_seconds && fresh_seed() % 8 != 0) return {};
  renew_inputs();
  const int kinds = static_cast<int>(project_.hard_values.size());
  const int start = drawn(sets_);
  const int first_kind = drawn(kinds);
  std::map<int, std::string> hard_of_set;
  for (int i = 0; i < std::min(kinds, sets_); ++i) {
    // Huge ones, which need the smallest shape, are large here: see the cases of the correctness gate.
    const std::string& hard = project_.hard_values[static_cast<std::size_t>((first_kind + i) % kinds)];
    const std::string here = hard == "huge" ? "large" : hard == "nan" && drawn(2) == 0 ? lone_nan : hard;
    const auto [set, added] = hard_of_set.emplace((start + i) % sets_, here);
    candidate_.fill(set->first, fresh_seed(), set->second);
  }
  const Timed block = timed(Side::candidate, sets_, false);
  if (!block.error.ok()) return block.error;
  for (const auto& [set, hard] : hard_of_set) {
    if (ContestError error = judge_by_reference(Side::candidate, set, sets_, hard); !error.ok()) return error;
  }
  return {};
}

// New inputs and no request: an honest kernel has nothing to do. They are never used.
ContestError Contest::watch_unasked() {
  if (on_card()) return {};  // every block is awaited, and nothing but the driver is left in the process
  for (int set = 0; set < sets_; ++set) candidate_.fill(set, fresh_seed());
  return {Side::candidate, candidate_.audit_unasked(unasked_watch)};
}

ContestError Contest::audit_round(AuditTimes& times) {
  // The same bytes written just before each pass: the caches are alike, only a memory of the values could be faster.
  const auto rewrite_inputs = [&] {
    for (int set = 0; set < sets_; ++set) candidate_.copy_inputs(set, base_, set);
  };
  renew_inputs();
  rewrite_inputs();
  const Timed once = timed(Side::candidate, sets_, true);
  if (!once.error.ok()) return once.error;
  if (ContestError error = watch_unasked(); !error.ok()) return error;
  rewrite_inputs();
  const Timed again = timed(Side::candidate, sets_, false);
  if (!again.error.ok()) return again.error;
  renew_inputs();
  const Timed partial = timed(Side::candidate, std::max(1, sets_ / 4), false);
  if (!partial.error.ok()) return partial.error;
  const auto worked = [](const Timed& block) {
    return block.by_card ? block.seconds_per_call : block.cpu_seconds_per_call;
  };
  times.fresh = std::min(times.fresh, worked(once));
  times.repeated = std::min(times.repeated, worked(again));
  times.few = std::min(times.few, worked(partial));
  return {};
}

// Processor time, or the card's, not wall time: other load on the machine must not look like a trick. The operating
// system counts it, so the kernel's process has no say in it.
ContestError Contest::audit() {
  AuditTimes times{INFINITY, INFINITY, INFINITY};
  const int part = std::max(1, sets_ / 4);
  // Some steps of an event's clock; a virtual one has no steps.
  const double least_card_seconds = candidate_runnable_.limit_factor > 1 ? 0 : 20e-6;
  bool remembers = false;
  bool skips = false;
  for (int round = 0; round < max_audit_rounds; ++round) {
    if (ContestError error = audit_round(times); !error.ok()) return error;
    if (round + 1 < audit_rounds) continue;
    // A block far shorter than wanted says nothing: the round trip would be most of it. Events have none.
    if (times.fresh * sets_ < (on_card() ? least_card_seconds : 0.5 * options_.block_seconds)) return try_hard_values();
    remembers = times.repeated < least_repeat_share * times.fresh;
    skips = sets_ >= 8 && times.fresh < least_repeat_share * times.few &&
            times.few * part > (on_card() ? least_card_seconds : 0.001);
    if (!remembers && !skips) return try_hard_values();
  }
  const std::string name = candidate_.label();
  const char* clock = on_card() ? "the card's time" : "processor time";
  if (remembers) {
    return refused(
        Side::candidate,
        fmt::format("{} remembers results in workload {}: {:.3g} µs of {} per call with inputs it has seen, {:.3g} µs "
                    "with new ones",
                    name, workload_.name, times.repeated * 1e6, clock, times.fresh * 1e6),
        "compute the result in every call; no cache of inputs or outputs between calls");
  }
  return refused(
      Side::candidate,
      fmt::format("{} does not do its work in every call in workload {}: {:.3g} µs of {} per call in {} calls, {:.3g} "
                  "µs in {}",
                  name, workload_.name, times.few * 1e6, clock, part, times.fresh * 1e6, sets_),
      "compute the result in every call");
}

// A card does the work of many small calls in the time of one. A kernel that knew the last call of a block could put
// the others' work off until then, so nobody knows which one that is: never the last of all sets, which the audit has
// shown it, nor that of the block before.
int Contest::calls_of_block() {
  if (!on_card() || sets_ < 2) return sets_;
  const int least = (sets_ + 1) / 2;
  const int choices = sets_ - least;
  const int last = last_calls_ - least;
  const bool repeatable = last < 0 || last >= choices || choices == 1;
  last_calls_ = least + (repeatable ? drawn(choices) : (last + 1 + drawn(choices - 1)) % choices);
  return last_calls_;
}

Contest::Measured Contest::next() {
  constexpr std::array order{Side::base, Side::candidate, Side::candidate, Side::base};
  Measured measured;
  std::array<Timed, order.size()> slots{};
  const int count = calls_of_block();
  for (std::size_t i = 0; i < order.size(); ++i) {
    // Both sides of each half see the same inputs; no side sees an input twice.
    if (i % 2 == 0) renew_inputs();
    slots[i] = timed(order[i], count, true);
    if (measured.error = slots[i].error; !measured.error.ok()) return measured;
    if (i % 2 == 1) measured.error = compare_sides(count);
    if (!measured.error.ok()) return measured;
  }
  // One clock for all four: theirs differ by what a wake-up takes.
  const bool by_processor =
      std::all_of(slots.begin(), slots.end(), [](const Timed& slot) { return slot.by_one_thread; });
  const auto seconds = [&](std::size_t i) {
    return by_processor ? slots[i].cpu_seconds_per_call : slots[i].seconds_per_call;
  };
  measured.block = {.base_first = seconds(0),
                    .candidate_first = seconds(1),
                    .candidate_second = seconds(2),
                    .base_second = seconds(3),
                    .processor_clock = by_processor};
  if (fresh_seed() % blocks_per_unasked_watch == 0) measured.error = watch_unasked();
  if (measured.error.ok() && fresh_seed() % blocks_per_hard_block == 0) measured.error = try_hard_values();
  return measured;
}

bool Contest::inputs_fit_l2() const {
  const auto bytes = static_cast<double>(candidate_.layout().input_bytes) * sets_;
  return bytes <= static_cast<double>(candidate_.l2_bytes());
}

Contest::OtherTimes Contest::other_times() {
  OtherTimes times;
  const auto median = [&](Side side, Timing timing, double& seconds) {
    std::vector<double> blocks;
    for (int round = 0; round < other_times_rounds && times.error.ok(); ++round) {
      renew_inputs();
      const Timed block = timed(side, sets_, false, timing);
      times.error = block.error;
      blocks.push_back(block.seconds_per_call);
    }
    seconds = median_of(std::move(blocks));
  };
  median(Side::base, Timing::cold, times.base_cold_seconds);
  median(Side::candidate, Timing::cold, times.candidate_cold_seconds);
  median(Side::base, Timing::call, times.base_call_seconds);
  median(Side::candidate, Timing::call, times.candidate_call_seconds);
  return times;
}

Contest::Timed Contest::time_base() {
  renew_inputs();
  return timed(Side::base, sets_, false);
}

}  // namespace flashmoe::workflow
