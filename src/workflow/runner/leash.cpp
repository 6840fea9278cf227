#include "workflow/runner/leash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

// A stop takes microseconds, or some turns of a busy machine.
constexpr milliseconds stop_limit{20'000};
// Processor time without a request: the counter of a thread is brought up to date a moment after it is seen stopped. A
// share of the blocks, because they are many.
constexpr double allowed_unasked_share = 0.01;

}  // namespace

Leash::Leash(pid_t supervisor, std::string label, bool trusted)
    : tree_(supervisor), label_(std::move(label)), trusted_(trusted) {}

void Leash::set_workload(const std::string& workload) {
  workload_ = workload;
  asked_seconds_ = 0;
  unasked_seconds_ = 0;
}

void Leash::go_on() {
  tree_.resume();
  is_stopped_ = false;
}

RunError Leash::await_stop() {
  is_stopped_ = tree_.wait_until_stopped(stop_limit);
  stopped_cpu_ = tree_.cpu_seconds();
  if (is_stopped_) return {};
  return {
      Failure::could_not_start,
      {.message = fmt::format("{} cannot be stopped between calls in workload {}: threads of it still ran after {} s",
                              label_, workload_, stop_limit.count() / 1000),
       .fix = "run on a machine with less load"}};
}

RunError Leash::check_it_stood_still() {
  const double now = tree_.cpu_seconds();
  if (trusted_ || !is_stopped_ || now < 0 || stopped_cpu_ < 0) return {};
  unasked_seconds_ += std::max(0.0, now - stopped_cpu_);
  stopped_cpu_ = now;
  if (unasked_seconds_ <= allowed_unasked_seconds + allowed_unasked_share * asked_seconds_) return {};
  return {
      Failure::refused,
      {.message = fmt::format("{} ran while it was stopped between calls in workload {}: {:.2f} ms of processor time "
                              "that nobody asked for",
                              label_, workload_, unasked_seconds_ * 1e3),
       .fix = "compute only while the entry is called, and leave SIGCONT alone"}};
}

RunError Leash::run_unasked(milliseconds watch, double& worked_seconds) {
  const double before = tree_.cpu_seconds();
  go_on();
  std::this_thread::sleep_for(watch);
  tree_.tell_to_stop();
  if (RunError error = await_stop(); error.failure != Failure::none) return error;
  worked_seconds = before < 0 ? -1 : stopped_cpu_ - before;
  return {};
}

}  // namespace flashmoe::workflow
