// The JSON of records of self-tests.
#include "workflow/journal/bodies.hpp"
#include "workflow/journal/json.hpp"

namespace flashmoe::workflow {
namespace journal_json {

template <class Io>
void describe(Io& io, Of<SelftestCheck> auto& check) {
  io("name", check.name);
  io("must", check.must);
  io("ran", check.ran);
  io("holds", check.holds);
  io("figure", check.figure);
}

template <class Io>
void describe(Io& io, Of<RateInterval> auto& interval) {
  io("rate", interval.rate);
  io("lower_95", interval.lower);
  io("upper_95", interval.upper);
}

template <class Io>
void describe(Io& io, Of<NullResult> auto& result) {
  io("runs", result.runs);
  io("false_keeps", result.false_keeps);
  io("false_keeps_of_naive_rule", result.false_keeps_of_naive);
  io("pair_spread", result.pair_spread);
  io("mean_pairs", result.mean_pairs);
}

template <class Io>
void describe(Io& io, Of<PowerCell> auto& cell) {
  io("pair_spread", cell.spread);
  io("gain", cell.gain);
  io("index", cell.index);
  io("kept", cell.kept);
  io("mean_pairs", cell.mean_pairs);
}

template <class Io>
void describe(Io& io, Of<RealResult> auto& result) {
  io("injected_gain", result.injected_gain);
  io("verdict", result.verdict);
  io("gain", result.gain);
  io("pairs", result.pairs);
  io("pair_spread", result.pair_spread);
  io.if_any("problem", result.problem);
}

template <class Io>
void describe(Io& io, Of<CheatOutcome> auto& outcome) {
  io("name", outcome.name);
  io("what", outcome.what);
  io("expected_gate", outcome.expected_gate);
  io("stopped_at", outcome.stopped_at);
  io("message", outcome.message);
  io("as_expected", outcome.as_expected);
  io.if_any("not_run", outcome.not_run);
  io.if_any("asked_again", outcome.asked_again);
  io("seconds", outcome.seconds);
}

template <class Io>
void describe(Io& io, Of<CorpusCounts> auto& counts) {
  io("cheats", counts.cheats);
  io("refused", counts.refused);
  io("honest", counts.honest);
  io("passed", counts.passed);
  io("not_run", counts.not_run);
  io("asked_again", counts.asked_again);
}

template <class Io>
void describe(Io& io, Of<EqualWorkload> auto& workload) {
  io("pairs", workload.pairs);
  io("mean", workload.mean);
  io("pair_spread", workload.pair_spread);
  io("blocks", workload.blocks);
  io("processor_clock_blocks", workload.processor_clock_blocks);
}

template <class Io>
void describe(Io& io, Of<EqualBuilds> auto& builds) {
  io("kernel", builds.kernel);
  io("workloads", builds.workloads);
}

template <class Io>
void describe(Io& io, Of<GateRate> auto& rate) {
  io("speed", rate.speed);
  io("needed", rate.needed);
  io("holds", rate.holds);
  io("fails", rate.fails);
  io("undecided", rate.undecided);
  io.if_any("problem", rate.problem);
}

template <class Io>
void describe(Io& io, Of<NoiseResult> auto& noise) {
  io("equal_builds", noise.equal_builds);
  io("gate_rates", noise.gate_rates);
}

template <class Io>
void describe(Io& io, Of<SelftestRecord> auto& record) {
  io("checks", record.checks);
  io("simulated_null", record.simulated_null);
  io("power", record.power);
  io("real", record.real);
  io("cheats", record.cheats);
  io.if_any("corpus", record.corpus);
  io.if_any("noise", record.noise);
}

void write_body(Json& to, const SelftestRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, SelftestRecord& body) {
  read_fields(from, body);
}

}  // namespace journal_json

Json to_json(const SelftestRecord& record) {
  Json json = Json::object();
  journal_json::write_body(json, record);
  return json;
}

}  // namespace flashmoe::workflow
