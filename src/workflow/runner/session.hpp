// One worker process and the memory shared with it, as the controller sees them. A session is bound to a workload with
// a number of buffer sets; a block calls the entry once per set, so that no call sees an input or an output twice.
// The worker and all its descendants are stopped except while they answer a request: inputs are written while nothing
// of it runs, and what it computes is in somebody's time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "workflow/runner/call_count.hpp"
#include "workflow/runner/layout.hpp"
#include "workflow/runner/runner.hpp"
#include "workflow/runner/timing.hpp"

namespace flashmoe::workflow {

struct Block {
  RunError error;
  double seconds = 0;         // the controller's clock, from the continue to the stop
  double worker_seconds = 0;  // what the worker says; a cross-check only
  double cpu_seconds = 0;     // processor time of the worker and its descendants in that time; -1: not known
  // One thread ran and gave its processor to nobody: its processor time is all there is to the block. Where threads
  // share the work, or somebody sleeps, only the controller's clock tells.
  bool by_one_thread = false;
  std::optional<double> card_seconds{};  // by the card's own clock, where a Timing was asked for
  int calls = 0;
  [[nodiscard]] bool ok() const { return error.failure == Failure::none; }
};

class Session {
 public:
  Session();
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Starts the worker and loads the entry. `trusted` sessions (references and baselines) may return their outputs after
  // the timed part; the kernel under test may not.
  [[nodiscard]] RunError start(const Project& project, const Runnable& runnable, bool trusted);
  // Lays the workload out `sets` times. `workload` is its name in messages.
  [[nodiscard]] RunError bind(const Project& project, const Values& values, const std::string& workload, int sets,
                              bool with_stages = false);
  [[nodiscard]] int sets() const;
  [[nodiscard]] const Layout& layout() const;
  [[nodiscard]] const std::string& label() const;

  // Fills the inputs of one set, or takes them from a set of another session with the same layout.
  void fill(int set, std::uint64_t seed, const std::string& hard = {});
  void copy_inputs(int set, const Session& from, int from_set);
  // Poisons outputs, stages and what lies behind them, and remembers the hashes of the inputs.
  void seal_inputs_and_poison();
  // Calls the entry for sets [first, first + count). `limit` is for the whole block.
  [[nodiscard]] Block run(int first, int count, std::chrono::milliseconds limit, const std::string& variant = {});
  // The same on a card, timed there. Who has no card says so.
  [[nodiscard]] Block time(int count, Timing timing, std::chrono::milliseconds limit);
  // Of the first set's call on a card: what the driver and, for these metrics, CUPTI (its library) tell.
  [[nodiscard]] Result<CallCount> count(const std::vector<std::string>& metrics, const std::string& cupti,
                                        std::chrono::milliseconds limit);
  // What must hold after any block: inputs as they were, nothing written behind an output.
  [[nodiscard]] RunError audit() const;
  // Lets the worker run for `watch` although nobody asks it for anything. It must neither compute nor write then, also
  // where the inputs are new: work left over, work ahead of the next call, load for the others.
  [[nodiscard]] RunError audit_unasked(std::chrono::milliseconds watch);

  [[nodiscard]] std::span<std::byte> tensor(int set, std::size_t index);
  [[nodiscard]] std::span<const std::byte> tensor(int set, std::size_t index) const;
  [[nodiscard]] double cpu_seconds() const;          // of the worker and its descendants so far; -1: not known
  [[nodiscard]] std::int64_t l2_bytes() const;       // of the card that it runs on; 0: none, or not known
  [[nodiscard]] const std::string& version() const;  // what the worker says it runs on ("torch 2.15.0"); may be empty
  int stop();                                        // the exit code of its process; -1: a signal's

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// How the worker program is started: this executable with the argument `worker`.
[[nodiscard]] std::vector<std::string> worker_command();
// CUDADENT_PYTHON, else python3.
[[nodiscard]] std::string python_program();

}  // namespace flashmoe::workflow
