#include "workflow/selftest/simulation.hpp"

#include <atomic>
#include <cmath>
#include <thread>

#include "support/process.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/statistics/sequential.hpp"

namespace flashmoe::workflow {
namespace {

// Every item has a random stream of its own, so that the result does not depend on the number of threads.
void for_each_item(int items, int threads, const Tick& tick, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  const auto worker = [&] {
    for (int item = next++; item < items && !interrupted(); item = next++) {
      work(item);
      if (tick) tick(static_cast<double>(item + 1) / items);
    }
  };
  const int count = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> pool;
  for (int i = 1; i < count; ++i) pool.emplace_back(worker);
  worker();
  for (std::thread& thread : pool) thread.join();
}

ComparePolicy policy_of(const SimulationOptions& options, int index) {
  return {.alpha = spend_alpha(options.total_alpha, index), .min_gain = options.min_gain};
}

Verdict sample_until_final(const ComparePolicy& policy, std::vector<double>& x, const std::function<double()>& pair) {
  Verdict verdict;
  while (!verdict.final) {
    x.push_back(pair());
    verdict = decide(x, policy);
  }
  return verdict;
}

struct NullRun {
  bool kept = false;
  bool naive_kept = false;
  int pairs = 0;
  double sum = 0, squares = 0;
};

NullRun one_null_run(const SimulationOptions& options, int run) {
  NullRun result;
  SimulatedMachine machine(options.noise, mix_seed(options.seed, static_cast<std::uint64_t>(run)));
  for (int k = 1; k <= options.candidates; ++k) {
    std::vector<double> x;
    const Verdict verdict = sample_until_final(policy_of(options, k), x, [&] { return machine.pair_log_ratio(0); });
    result.kept = result.kept || verdict.decision == Decision::keep;
    result.pairs += verdict.pairs;
    for (const double value : x) {
      result.sum += value;
      result.squares += value * value;
    }
    const double base = machine.single_run_log_time(100);
    const double candidate = machine.single_run_log_time(100);
    result.naive_kept = result.naive_kept || base - candidate >= 0.01;
  }
  return result;
}

}  // namespace

NullResult simulate_null(const SimulationOptions& options, const Tick& tick) {
  std::vector<NullRun> runs(static_cast<std::size_t>(options.runs));
  for_each_item(options.runs, options.threads, tick,
                [&](int run) { runs[static_cast<std::size_t>(run)] = one_null_run(options, run); });
  int kept = 0;
  int naive = 0;
  double pairs = 0;
  double sum = 0;
  double squares = 0;
  for (const NullRun& run : runs) {
    kept += run.kept;
    naive += run.naive_kept;
    pairs += run.pairs;
    sum += run.sum;
    squares += run.squares;
  }
  NullResult result;
  result.runs = options.runs;
  result.false_keeps = exact_rate(kept, options.runs);
  result.false_keeps_of_naive = exact_rate(naive, options.runs);
  result.mean_pairs = pairs / (options.runs * options.candidates);
  result.pair_spread = std::sqrt(squares / pairs - (sum / pairs) * (sum / pairs));
  return result;
}

std::vector<PowerCell> simulate_power(const SimulationOptions& options, const std::vector<double>& spreads,
                                      const std::vector<double>& gains, int index, const Tick& tick) {
  std::vector<PowerCell> cells;
  for (const double spread : spreads) {
    for (const double gain : gains) cells.push_back({.spread = spread, .gain = gain, .index = index});
  }
  const ComparePolicy policy = policy_of(options, index);
  for_each_item(static_cast<int>(cells.size()), options.threads, tick, [&](int item) {
    PowerCell& cell = cells[static_cast<std::size_t>(item)];
    std::mt19937_64 random(
        mix_seed(options.seed, 1'000'000ULL * static_cast<std::uint64_t>(index) + static_cast<std::uint64_t>(item)));
    int kept = 0;
    double pairs = 0;
    for (int trial = 0; trial < options.trials_per_cell; ++trial) {
      std::vector<double> x;
      const Verdict verdict =
          sample_until_final(policy, x, [&] { return heavy_tailed_pair(random, std::log1p(cell.gain), cell.spread); });
      kept += verdict.decision == Decision::keep;
      pairs += verdict.pairs;
    }
    cell.kept = exact_rate(kept, options.trials_per_cell);
    cell.mean_pairs = pairs / options.trials_per_cell;
  });
  return cells;
}

}  // namespace flashmoe::workflow
