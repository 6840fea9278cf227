// A machine that does not exist, with the noise of a rented one (docs/comparing.md): what the comparison is tested on
// when the truth has to be known.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace flashmoe::workflow {

// All sizes are relative times: 0.01 is 1 %.
struct NoiseModel {
  double drift = 0.010;  // standard deviation of a slow wander (temperature, neighbours)
  double drift_seconds = 2.0;
  double clock_step = 0.015;  // the clock jumps between two rates
  double clock_dwell_seconds = 5.0;
  double process = 0.004;               // a fresh process keeps its own offset (addresses, page colours)
  double unlucky_process_share = 0.02;  // heavy tail over processes: some are slow for their whole life
  double unlucky_process_mean = 0.02;
  double launch = 0.007;      // independent from launch to launch
  double spike_share = 0.01;  // heavy tail over launches
  double spike_mean = 0.05;
  double launch_seconds = 0.001;
  int launches_per_slot = 5;
  int blocks = 5;
};

class SimulatedMachine {
 public:
  SimulatedMachine(const NoiseModel& model, std::uint64_t seed);

  // One fresh process pair, measured as the real ones are: ABBA blocks, the median launch of each slot, the median
  // block. The candidate is faster by exp(log_gain).
  [[nodiscard]] double pair_log_ratio(double log_gain);
  // One process that runs `launches` times: its median log time around that of a perfect machine. What the rules that
  // compare two runs one after the other look at.
  [[nodiscard]] double single_run_log_time(int launches);
  [[nodiscard]] std::vector<double> single_run_log_times(int launches);  // of every launch

 private:
  void advance(double seconds);
  [[nodiscard]] double slot_seconds() const { return model_.launch_seconds * model_.launches_per_slot; }
  [[nodiscard]] double launch_noise();
  [[nodiscard]] double process_offset();

  NoiseModel model_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_{0, 1};
  std::uniform_real_distribution<double> uniform_{0, 1};
  double drift_ = 0;
  bool slow_clock_ = false;
};

// A pair's log-ratio with a given spread and heavy tails (Student's t with 5 degrees of freedom, scaled to it).
[[nodiscard]] double heavy_tailed_pair(std::mt19937_64& random, double log_gain, double spread);

}  // namespace flashmoe::workflow
