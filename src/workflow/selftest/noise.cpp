#include "workflow/selftest/noise.hpp"

#include <cmath>
#include <vector>

#include "workflow/statistics/pair.hpp"

namespace flashmoe::workflow {

SimulatedMachine::SimulatedMachine(const NoiseModel& model, std::uint64_t seed) : model_(model), random_(seed) {
  drift_ = model_.drift * normal_(random_);
  slow_clock_ = uniform_(random_) < 0.5;
}

// The wander is an Ornstein-Uhlenbeck process, the clock a random telegraph: both keep their distribution over time.
// Both are slow against a slot of some milliseconds, within which they stand still.
void SimulatedMachine::advance(double seconds) {
  const double kept = std::exp(-seconds / model_.drift_seconds);
  drift_ = kept * drift_ + model_.drift * std::sqrt(1 - kept * kept) * normal_(random_);
  const double stays = 0.5 * (1 + std::exp(-2 * seconds / model_.clock_dwell_seconds));
  if (uniform_(random_) > stays) slow_clock_ = !slow_clock_;
}

double SimulatedMachine::launch_noise() {
  double noise = drift_ + (slow_clock_ ? model_.clock_step : 0) + model_.launch * normal_(random_);
  if (uniform_(random_) < model_.spike_share) noise -= model_.spike_mean * std::log1p(-uniform_(random_));
  return noise;
}

double SimulatedMachine::process_offset() {
  double offset = model_.process * normal_(random_);
  if (uniform_(random_) < model_.unlucky_process_share) {
    offset -= model_.unlucky_process_mean * std::log1p(-uniform_(random_));
  }
  return offset;
}

double SimulatedMachine::pair_log_ratio(double log_gain) {
  const double base = process_offset();
  const double candidate = process_offset() - log_gain;
  advance(0.2);  // processes start
  std::vector<AbbaBlock> blocks;
  for (int block = 0; block < model_.blocks; ++block) {
    std::vector<double> slots;
    for (const bool is_candidate : {false, true, true, false}) {
      advance(slot_seconds());
      std::vector<double> launches;
      for (int i = 0; i < model_.launches_per_slot; ++i) {
        launches.push_back((is_candidate ? candidate : base) + launch_noise());
      }
      slots.push_back(std::exp(median_of(launches)));
    }
    blocks.push_back({slots[0], slots[1], slots[2], slots[3]});
  }
  return pair_of(blocks).log_ratio;
}

double SimulatedMachine::single_run_log_time(int launches) {
  return median_of(single_run_log_times(launches));
}

std::vector<double> SimulatedMachine::single_run_log_times(int launches) {
  const double offset = process_offset();
  advance(0.2);
  std::vector<double> times;
  for (int i = 0; i < launches; ++i) {
    if (i % model_.launches_per_slot == 0) advance(slot_seconds());
    times.push_back(offset + launch_noise());
  }
  return times;
}

double heavy_tailed_pair(std::mt19937_64& random, double log_gain, double spread) {
  constexpr double freedom = 5;
  std::student_t_distribution<double> tail(freedom);
  return log_gain + spread * tail(random) / std::sqrt(freedom / (freedom - 2));
}

}  // namespace flashmoe::workflow
