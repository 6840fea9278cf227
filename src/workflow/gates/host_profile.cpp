#include "workflow/gates/host_profile.hpp"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "support/clock.hpp"
#include "support/perf_events.hpp"
#include "workflow/gates/runnable.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/judge_call.hpp"
#include "workflow/runner/session.hpp"

namespace flashmoe::workflow {
namespace {

using std::chrono::milliseconds;

constexpr double block_seconds = 0.02;
constexpr double block_bytes = 64.0 * (1 << 20);  // of all sets
constexpr int most_sets = 1024;
constexpr int timed_blocks = 5;
constexpr double copied_seconds = 0.03;
constexpr double least_copied_bytes = 8192;

Diagnostic of_the_kernel(const RunError& error) {
  Diagnostic problem = error.diagnostic;
  problem.code = kernel_code(error.failure);
  return problem;
}

// How long one call takes, before anything is timed.
Result<double> first_call(const Project& project, const Workload& workload, std::uint64_t seed, Session& session) {
  RunError error = session.bind(project, workload.values, workload.name, 1);
  if (error.failure != Failure::none) return of_the_kernel(error);
  session.fill(0, seed);
  session.seal_inputs_and_poison();
  const Block block = session.run(0, 1, milliseconds(static_cast<long>(project.call_limit_seconds * 1e3)));
  if (!block.ok()) return of_the_kernel(block.error);
  return block.seconds;
}

}  // namespace

double copying_speed(double bytes, int threads) {
  const auto part = static_cast<std::size_t>(std::max(bytes, least_copied_bytes)) / 2 /
                    static_cast<std::size_t>(std::max(1, threads));
  std::vector<double> speeds(static_cast<std::size_t>(std::max(1, threads)));
  std::barrier together(static_cast<std::ptrdiff_t>(speeds.size()));
  const auto copy = [&](double& best) {
    std::vector<char> from(part, 1);
    std::vector<char> to(part);
    // Long enough for the clock.
    const auto rounds = std::max<std::size_t>(1, (std::size_t{1} << 22) / std::max<std::size_t>(1, part));
    together.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    do {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < rounds; ++i) {
        std::memcpy(to.data(), from.data(), part);
        asm volatile("" : : "r"(to.data()) : "memory");  // somebody may look at it
      }
      best = std::max(best, 2.0 * static_cast<double>(part * rounds) / std::max(seconds_since(begin), 1e-9));
    } while (seconds_since(start) < copied_seconds);
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < speeds.size(); ++i) others.emplace_back(copy, std::ref(speeds[i]));
  copy(speeds[0]);
  for (std::thread& one : others) one.join();
  double sum = 0;
  for (const double speed : speeds) sum += speed;
  return sum;
}

Result<HostProfile> profile_host_call(const GateContext& context, const Workload& workload, std::uint64_t seed,
                                      bool judge) {
  const Project& project = context.project;
  HostProfile profile;
  // Before the worker is started: it is born with them.
  const auto counters = PerfCounters::open(hardware_events());
  Session session;
  if (const RunError error = session.start(project, context.kernel, false); error.failure != Failure::none)
    return of_the_kernel(error);
  const auto first = first_call(project, workload, seed, session);
  if (!first) return first.error();
  if (judge) {
    auto wrong = wrong_output(project, workload, session, context.reference);
    if (!wrong) return wrong.error();
    profile.wrong = std::move(*wrong);
  }

  const double set_bytes = static_cast<double>(session.layout().input_bytes + session.layout().output_bytes) + 1;
  const double wanted =
      std::min({std::ceil(block_seconds / std::max(*first, 1e-7)), block_bytes / set_bytes, 1.0 * most_sets});
  const int sets = std::max(1, static_cast<int>(wanted));
  if (const RunError error = session.bind(project, workload.values, workload.name, sets);
      error.failure != Failure::none)
    return of_the_kernel(error);
  const milliseconds limit(static_cast<long>(project.call_limit_seconds * (1 + sets / 16.0) * 1e3));
  HostCall& call = profile.call;
  std::uint64_t next_input = 0;
  // The first one warms up.
  for (int i = 0; i <= timed_blocks; ++i) {
    for (int set = 0; set < sets; ++set) session.fill(set, mix_seed(seed, next_input++));
    session.seal_inputs_and_poison();
    if (counters && i > 0) counters->switch_on();
    const Block block = session.run(0, sets, limit);
    if (counters) counters->switch_off();
    if (!block.ok()) return of_the_kernel(block.error);
    // What others took from it while it wanted to go on is not its time.
    const double seconds = (block.by_one_thread ? block.cpu_seconds : block.seconds) / sets;
    if (i == 0 || (i > 1 && seconds >= call.seconds)) continue;
    call.seconds = seconds;
    call.processor_seconds = block.cpu_seconds < 0 ? seconds : block.cpu_seconds / sets;
  }
  if (counters) call.counted = counters->counts();
  for (auto& [name, count] : call.counted) count /= timed_blocks * sets;
  if (call.counted.empty()) {
    profile.no_counters = counters ? "the counters were never switched on" : counters.error().message;
    profile.no_counters_fix = counters ? "run it again with less load beside it" : counters.error().fix;
  }
  session.stop();

  call.threads = context.kernel.threads;
  for (const TensorLayout& tensor : session.layout().tensors) {
    const bool moves = tensor.role == TensorRole::input || tensor.role == TensorRole::output;
    if (moves) call.bytes += static_cast<double>(tensor.bytes);
  }
  call.bytes_per_second = copying_speed(call.bytes * sets, call.threads);
  return profile;
}

}  // namespace flashmoe::workflow
