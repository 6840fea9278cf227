#include "workflow/journal/compare_record.hpp"

#include <cmath>

namespace flashmoe::workflow {

std::string CompareRecord::identity() const {
  return (key ? "\"" + *key + "\"" : "null") + (seed ? std::to_string(*seed) : "null");
}

CompareRecord measured_record(const Comparison& comparison) {
  const Calibration& calibration = comparison.calibration;
  CompareRecord record;
  if (comparison.pairs.size() >= 2) record.gain = gain_of(comparison.verdict.interval);
  record.pairs_used = comparison.pairs.size();
  record.calibration = {.pairs = calibration.pairs,
                        .pair_spread = calibration.pair_spread,
                        .noise_floor = calibration.noise_floor,
                        .equal_versions = gain_of(calibration.interval),
                        .biased = calibration.biased};
  if (std::isfinite(calibration.minimum_detectable_gain)) {
    record.calibration.minimum_detectable_gain = calibration.minimum_detectable_gain;
  }
  record.samples = comparison.pairs;
  record.calibration_samples = comparison.calibration_pairs;
  record.problem = comparison.problem.message;
  record.fix = comparison.problem.fix;
  return record;
}

}  // namespace flashmoe::workflow
