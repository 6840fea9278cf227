// A worker and its descendants, stopped except while they answer a request; what they do is counted, asked or not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "support/process_tree.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

// Processor seconds that nobody asked for and that are no work yet.
inline constexpr double allowed_unasked_seconds = 0.3e-3;

class Leash {
 public:
  Leash() = default;
  // `trusted`: it may compute between requests.
  Leash(pid_t supervisor, std::string label, bool trusted);

  void set_workload(const std::string& workload);  // for messages; begins to count anew
  void go_on();
  // Sends the stop; from here on it executes no instruction of its own.
  void tell_to_stop() const { tree_.tell_to_stop(); }
  // Waits until it is seen stopped. Told first, so that what it still does until then is as short as a signal's way.
  [[nodiscard]] RunError await_stop();
  // A stop is not for ever: SIGCONT can come from elsewhere (fcntl F_SETSIG orders it from a file). Processor time
  // tells.
  [[nodiscard]] RunError check_it_stood_still();
  void add_asked_seconds(double seconds) { asked_seconds_ += seconds; }
  // Lets it run for a while although nobody asks it for anything: processor seconds; below 0: not known.
  [[nodiscard]] RunError run_unasked(std::chrono::milliseconds watch, double& worked_seconds);

  [[nodiscard]] double cpu_seconds() const { return tree_.cpu_seconds(); }
  [[nodiscard]] Work work() const { return tree_.work(); }  // exact while it is stopped
  [[nodiscard]] std::size_t processes() const { return tree_.size(); }

 private:
  ProcessTree tree_;
  std::string label_, workload_ = "(none)";
  bool trusted_ = false;
  bool is_stopped_ = false;     // seen so
  double stopped_cpu_ = 0;      // processor seconds when it was
  double asked_seconds_ = 0;    // in blocks
  double unasked_seconds_ = 0;  // processor time while stopped
};

}  // namespace flashmoe::workflow
