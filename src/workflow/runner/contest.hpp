// Two runnables timed against each other on the same inputs, in ABBA order, each in a process of its own. Every block
// gets inputs nobody has seen before; outputs are poisoned before and checked after; a sample of them is compared with
// the reference. A candidate that does not do the work is refused, never timed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workflow/runner/inputs.hpp"
#include "workflow/runner/judge.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/statistics/pair.hpp"

namespace flashmoe::workflow {

enum class Side { base, candidate };

struct ContestOptions {
  std::uint64_t seed = 0;
  double block_seconds = 0.004;  // at least this long: the pipe's round trip is a few microseconds per cent
  double warm_up_seconds = 0.1;  // clocks and tile units ramp up
  double reference_seconds = 4;  // to spend per workload and side on comparing timed outputs with the reference
  bool base_is_kernel = false;   // then the base is judged like the candidate
};

struct ContestError {
  Side side = Side::candidate;
  RunError error;
  [[nodiscard]] bool ok() const { return error.failure == Failure::none; }
};

class Contest {
 public:
  explicit Contest(const Project& project, const ContestOptions& options) : project_(project), options_(options) {}

  // Starts the processes. The reference may be left out only by tests of the timing itself.
  [[nodiscard]] ContestError start(const Runnable& base, const Runnable& candidate,
                                   const std::optional<Runnable>& reference);
  // Prepares one workload: finds the number of buffer sets, warms up. May be called again for another one.
  [[nodiscard]] ContestError open(const Workload& workload);
  // The same workload in two fresh processes: where a process has its memory is an offset that stays for its life.
  [[nodiscard]] ContestError restart();
  // Does the candidate do the work each time it is called? Repeated inputs against fresh ones, few calls against many,
  // work when nobody asks.
  [[nodiscard]] ContestError audit();
  struct Measured {
    ContestError error;
    AbbaBlock block;  // seconds per call, all four by one clock
  };
  [[nodiscard]] Measured next();
  // Further blocks that look like all others and are not timed, until so many calls of the candidate are judged or so
  // much time has passed.
  [[nodiscard]] ContestError judge_calls(int wanted, double limit_seconds);
  // The base alone, before anything else: seconds per call of one block.
  struct Timed {
    ContestError error;
    double seconds_per_call = 0;
    double cpu_seconds_per_call = 0;     // of the worker, as the operating system counts it
    bool by_one_thread = false;          // see Block
    bool by_card = false;                // then seconds_per_call are the card's
    double waited_seconds_per_call = 0;  // by the controller's clock, copies and all
    // The clock that decides: the processor's where it holds the whole block, since nobody else's work is in it.
    [[nodiscard]] double decisive_seconds() const { return by_one_thread ? cpu_seconds_per_call : seconds_per_call; }
  };
  [[nodiscard]] Timed time_base();
  // On a card: what a call takes with a cold L2, and as a program sees it; base and candidate in turn. Told beside the
  // time that decides, never instead of it.
  struct OtherTimes {
    ContestError error;
    double base_cold_seconds = 0, candidate_cold_seconds = 0;
    double base_call_seconds = 0, candidate_call_seconds = 0;
  };
  [[nodiscard]] OtherTimes other_times();
  [[nodiscard]] bool on_card() const { return candidate_runnable_.by_events; }
  [[nodiscard]] bool inputs_fit_l2() const;  // of all sets: else "warm" is half true

  [[nodiscard]] int sets() const { return sets_; }
  [[nodiscard]] double block_seconds() const { return options_.block_seconds; }
  [[nodiscard]] int outputs_compared() const { return outputs_compared_; }  // calls of the candidate that were judged
  [[nodiscard]] const std::string& base_version() const { return base_.version(); }

 private:
  struct AuditTimes {
    double fresh, repeated, few;  // processor seconds per call, the least of all rounds
  };
  [[nodiscard]] ContestError audit_round(AuditTimes& times);
  [[nodiscard]] ContestError watch_unasked();
  [[nodiscard]] Timed timed(Side side, int count, bool judged, Timing timing = Timing::kernel);
  [[nodiscard]] ContestError check_written(Side side, int count) const;
  [[nodiscard]] ContestError compare_with_reference(Side side, int count);
  // `hard`: which values its inputs hold; empty: ordinary ones.
  [[nodiscard]] ContestError judge_by_reference(Side side, int set, int count, const std::string& hard = {});
  [[nodiscard]] ContestError try_hard_values();
  [[nodiscard]] ContestError compare_sides(int count);
  [[nodiscard]] int calls_of_block();
  [[nodiscard]] ContestError start_sides();
  [[nodiscard]] ContestError bind_sides(int sets);
  [[nodiscard]] ContestError warm_up(double seconds);
  void renew_inputs();
  [[nodiscard]] ContestError choose_sets();
  [[nodiscard]] ContestError estimate(Side side, double& seconds_per_call, double& waited_per_call);
  [[nodiscard]] Session& session(Side side) { return side == Side::base ? base_ : candidate_; }
  [[nodiscard]] const Session& session(Side side) const { return side == Side::base ? base_ : candidate_; }
  [[nodiscard]] bool is_kernel(Side side) const { return side == Side::candidate || options_.base_is_kernel; }

  const Project& project_;
  ContestOptions options_;
  Runnable base_runnable_, candidate_runnable_;
  Session base_, candidate_;
  std::optional<Session> reference_;
  Workload workload_;
  int sets_ = 1;
  int last_calls_ = 0;  // of the timed block before
  std::uint64_t round_ = 0;
  std::uint64_t secret_ = fresh_seed();  // who chose the seed on the command line could know all inputs
  int threads_ = 1;
  // By side.
  struct Used {
    double seconds = 0, cpu_seconds = 0;
  };
  std::array<Used, 2> used_{};
  std::array<double, 2> reference_spent_seconds_{};
  int outputs_compared_ = 0;
};

}  // namespace flashmoe::workflow
