// The JSON of pairs and of records of comparisons.
#include <cmath>
#include <limits>

#include "workflow/journal/bodies.hpp"
#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {
namespace journal_json {

template <class Io>
void describe(Io& io, Of<CpuState> auto& state) {
  io.if_any("load_1min", state.load_1min);
  io.if_any("cpu_mhz", state.cpu_mhz);
  io.if_any("governor", state.governor);
}

// {"before", "after"}: the machine around a pair.
template <class Sample>
struct MachineAround {
  Sample& sample;
};
template <class Io, class Sample>
void describe(Io& io, const MachineAround<Sample>& around) {
  io.if_any("before", around.sample.before);
  io.if_any("after", around.sample.after);
}

template <class Io, Of<PairSample> Sample>
void describe(Io& io, Sample& sample) {
  io("log_ratio", sample.log_ratio);
  io("block_log_ratios", sample.block_log_ratios);
  io("base_seconds", sample.base_seconds);
  io("candidate_seconds", sample.candidate_seconds);
  io.if_any("total_log_ratio", sample.total_log_ratio);
  io.if_any("processor_clock_blocks", sample.processor_clock_blocks);
  const MachineAround<Sample> around{sample};
  io("machine_state", around);
}

template <class Io>
void describe(Io& io, Of<VersionRecord> auto& version) {
  io("name", version.name);
  io("commit", version.commit);
  io("dirty", version.dirty);
  io("library_sha256", version.library_sha256);
}

template <class Io>
void describe(Io& io, Of<PolicyRecord> auto& policy) {
  io("index", policy.index);
  io("alpha", policy.alpha);
  io("min_gain", policy.min_gain);
  io("min_pairs", policy.min_pairs);
  io("max_pairs", policy.max_pairs);
  io("g", policy.g);
  io("block_seconds", policy.block_seconds);
  io.if_any("counted", policy.counted);
}

template <class Io>
void describe(Io& io, Of<CalibrationRecord> auto& calibration) {
  io("pairs", calibration.pairs);
  io("pair_spread", calibration.pair_spread);
  io("noise_floor", calibration.noise_floor);
  io("minimum_detectable_gain", calibration.minimum_detectable_gain);
  io("equal_versions", calibration.equal_versions);
  io("biased", calibration.biased);
}

template <class Io>
void describe(Io& io, Of<PredictedGain> auto& predicted) {
  io("base_cycles", predicted.base_cycles);
  io("candidate_cycles", predicted.candidate_cycles);
  io("base_limiter", predicted.base_limiter);
  io("candidate_limiter", predicted.candidate_limiter);
  io("needed", predicted.needed);
  io.if_any("doubts", predicted.doubts);
}

template <class Io>
void describe(Io& io, Of<CompareRecord> auto& record) {
  io.if_any("cost_per_hour", record.cost_per_hour);
  io("key", record.key);
  io.if_any("note", record.note);
  io.if_any("phase", record.phase);
  io.if_any("base", record.base);
  io.if_any("candidate", record.candidate);
  io.if_any("workload", record.workload);
  io.if_any("final_claim", record.final_claim);
  io.if_any("policy", record.policy);
  io("seed", record.seed);
  io.if_any("recipe", record.recipe);
  io("gain", record.gain);
  io("pairs_used", record.pairs_used);
  io("calibration", record.calibration);
  io("samples", record.samples);
  io("calibration_samples", record.calibration_samples);
  io.if_any("counters", record.counters);
  io.if_any("predicted", record.predicted);
  io.if_any("not_predicted", record.not_predicted);
  io.if_any("problem", record.problem);
  if (!record.problem.empty()) io("fix", record.fix);
}

void write_body(Json& to, const CompareRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, CompareRecord& body) {
  read_fields(from, body);
}

}  // namespace journal_json

Json to_json(const Gain& gain) {
  return journal_json::json_of(gain);
}

Json to_json(const PairSample& sample) {
  return journal_json::json_of(sample);
}

bool pair_from(const Json& json, PairSample& sample) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  sample = {.log_ratio = unknown, .base_seconds = unknown, .candidate_seconds = unknown};
  return journal_json::read(json, sample) && std::isfinite(sample.log_ratio);
}

}  // namespace flashmoe::workflow
