// The JSON of each kind's body, each in a file of its own: it is long to compile.
#pragma once

#include "workflow/journal/describe.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow::journal_json {

void write_body(Json& to, const OtherRecord& body);
void write_body(Json& to, const GateRecord& body);
void write_body(Json& to, const CompareRecord& body);
void write_body(Json& to, const IterationRecord& body);
void write_body(Json& to, const ProfileRecord& body);
void write_body(Json& to, const RunRecord& body);
void write_body(Json& to, const SelftestRecord& body);
void write_body(Json& to, const BatchRecord& body);
void write_body(Json& to, const CountRecord& body);
void write_body(Json& to, const TraceRecord& body);
void write_body(Json& to, const KnownGoodRecord& body);
void write_body(Json& to, const ReproduceRecord& body);

void read_body(const Json& from, OtherRecord& body);
void read_body(const Json& from, GateRecord& body);
void read_body(const Json& from, CompareRecord& body);
void read_body(const Json& from, IterationRecord& body);
void read_body(const Json& from, ProfileRecord& body);
void read_body(const Json& from, RunRecord& body);
void read_body(const Json& from, SelftestRecord& body);
void read_body(const Json& from, BatchRecord& body);
void read_body(const Json& from, CountRecord& body);
void read_body(const Json& from, TraceRecord& body);
void read_body(const Json& from, KnownGoodRecord& body);
void read_body(const Json& from, ReproduceRecord& body);

// A body's fields stand among the record's own.
template <class Body>
void write_fields(Json& to, const Body& body) {
  Writer io(to);
  describe(io, body);
}
template <class Body>
void read_fields(const Json& from, Body& body) {
  Reader io(from);
  describe(io, body);
}

template <class Io>
void describe(Io& io, Of<Prices> auto& prices) {
  io("machine", prices.machine);
  io("agent", prices.agent);
}

template <class Io>
void describe(Io& io, Of<Recipe> auto& recipe) {
  io.if_any("exact", recipe.exact);
  io("argv", recipe.argv);
}

template <class Io>
void describe(Io& io, Of<CounterChange> auto& change) {
  io("name", change.name);
  io("from", change.from);
  io("to", change.to);
}

template <class Io>
void describe(Io& io, Of<CountedLine> auto& line) {
  io("file", line.file);
  io("line", line.line);
  io("count", line.count);
  io("own", line.own);
  io("all", line.all);
}

template <class Io>
void describe(Io& io, Of<BottleneckFacts> auto& bottleneck) {
  io("rule", bottleneck.rule);
  io("bottleneck", bottleneck.bottleneck);
  io("says", bottleneck.says);
  io.if_any("where", bottleneck.where);
  io.if_any("lines", bottleneck.lines);
  io("change", bottleneck.change);
  io("expected", bottleneck.expected);
  io("expected_gain", bottleneck.expected_gain);
}

template <class Io>
void describe(Io& io, Of<ProfileFacts> auto& facts) {
  io("workload", facts.workload);
  io("seed", facts.seed);
  io("counters", facts.counters);
  io.if_any("degraded", facts.degraded);
  io.if_any("debug", facts.debug);
  io.if_any("kernel", facts.kernel);
  io("counted", facts.counted);
  io("bottleneck", facts.bottleneck);
  io.if_any("further", facts.further);
}

template <class Io>
void describe(Io& io, Of<Gain> auto& gain) {
  io("mean", gain.mean);
  io("lower", gain.lower);
  io("upper", gain.upper);
}

template <class Io>
void describe(Io& io, Of<CompilerVersions> auto& compilers) {
  io("c++", compilers.cxx);
  io("clang++", compilers.clang);
}

}  // namespace flashmoe::workflow::journal_json
