#include "workflow/journal/record_json.hpp"

#include "support/json_text.hpp"
#include "workflow/journal/bodies.hpp"

namespace flashmoe::workflow {
namespace journal_json {

template <class Io>
void describe(Io& io, Of<Spent> auto& cost) {
  io("machine", cost.machine);
  io("agent", cost.agent);
  io("total", cost.total);
}

template <class Io>
void describe(Io& io, Of<MachineFacts> auto& facts) {
  io("host", facts.host);
  io("cpu", facts.cpu);
  io("cores", facts.cores);
  io("memory_gib", facts.memory_gib);
  io("kernel", facts.kernel);
  io("compilers", facts.compilers);
  io("git", facts.git);
}

void write(Json& to, const Scalar& value) {
  to = nullptr;
  std::visit(
      [&](const auto& inner) {
        if constexpr (!std::same_as<std::remove_cvref_t<decltype(inner)>, std::monostate>) to = inner;
      },
      value);
}

bool read(const Json& from, Scalar& value) {
  if (from.is_boolean()) value = from.get<bool>();
  if (from.is_number_float()) value = from.get<double>();
  if (from.is_number_unsigned()) {
    value = from.get<std::uint64_t>();
  } else if (from.is_number_integer()) {
    value = from.get<std::int64_t>();
  }
  if (from.is_string()) value = from.get<std::string>();
  return !from.is_structured();
}

template <class Io>
void describe(Io& io, Of<Difference> auto& difference) {
  io("key", difference.key);
  io("a", difference.a);
  io("b", difference.b);
  io.if_any("ratio", difference.ratio);
}

template <class Io>
void describe(Io& io, Of<KnownGoodRecord> auto& record) {
  io("of", record.of);
  io("summary", record.summary);
  io("recipe", record.recipe);
}

template <class Io>
void describe(Io& io, Of<ReproduceRecord> auto& record) {
  io("cost_per_hour", record.cost_per_hour);
  io("of", record.of);
  io("exact", record.exact);
  io("argv", record.argv);
  io("verdict_then", record.verdict_then);
  io("verdict_now", record.verdict_now);
  io("what_then", record.what_then);
  io("what_now", record.what_now);
  io("differs", record.differs);
  io("summary", record.summary);
}

template <class Io>
void describe(Io& io, Of<OtherRecord> auto& record) {
  io.if_any("summary", record.summary);
  io.if_any("note", record.note);
}

template <class Io>
void describe(Io& io, Of<Chain> auto& chain) {
  io("writer", chain.writer);
  io("sequence", chain.sequence);
  io("previous", chain.previous);
}

template <class Io>
void describe(Io& io, Of<Evidence> auto& evidence) {
  io("kind", evidence.kind);
  io("where", evidence.where);
  io.if_any("error", evidence.error);
  io.if_any("confinement", evidence.confinement);
}

// The head, in the order in which people read it.
template <class Io>
void describe(Io& io, Of<Record> auto& record) {
  io.if_any("chain", record.chain);
  io("kind", record.kind);
  io("time", record.time);
  io("run", record.run);
  io("project", record.project);
  io("commit", record.commit);
  io("dirty", record.dirty);
  io("device", record.device);
  io("verdict", record.verdict);
  io.if_any("evidence", record.evidence);
  io("seconds", record.seconds);
  io("cost", record.cost);
  io("hashes", record.hashes);
  io("environment", record.environment);
  io("process", record.process);
}

void write_body(Json& to, const KnownGoodRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, KnownGoodRecord& body) {
  read_fields(from, body);
}
void write_body(Json& to, const ReproduceRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, ReproduceRecord& body) {
  read_fields(from, body);
}
void write_body(Json& to, const OtherRecord& body) {
  write_fields(to, body);
}
void read_body(const Json& from, OtherRecord& body) {
  read_fields(from, body);
}

namespace {

template <class... Alternatives>
std::vector<std::string> kinds_of(const std::variant<OtherRecord, Alternatives...>* /*type*/) {
  return {Alternatives::kind...};
}

// The alternative that names itself so; else what any record may have.
template <class... Alternatives>
void read_kind(const Json& from, const std::string& kind, std::variant<OtherRecord, Alternatives...>& body) {
  const auto try_one = [&]<class Body>(Body read_into) {
    if (kind != Body::kind) return false;
    read_body(from, read_into);
    body = std::move(read_into);
    return true;
  };
  if ((try_one(Alternatives{}) || ...)) return;
  OtherRecord other;
  read_body(from, other);
  body = std::move(other);
}

}  // namespace
}  // namespace journal_json

std::vector<std::string> record_kinds() {
  return journal_json::kinds_of(static_cast<const AnyRecordBody*>(nullptr));
}

Json to_json(const MachineFacts& facts) {
  return journal_json::json_of(facts);
}

Json to_json(const Evidence& evidence) {
  return journal_json::json_of(evidence);
}

Json to_json(const Difference& difference) {
  return journal_json::json_of(difference);
}

Json to_json(const Record& record) {
  Json json = Json::object();
  journal_json::Writer io(json);
  io("kind", record.kind);
  io("project", record.project);
  io("device", record.device);
  io("verdict", record.verdict);
  io.if_any("evidence", record.evidence);
  io("seconds", record.seconds);
  io("hashes", record.hashes);
  std::visit([&](const auto& body) { journal_json::write_body(json, body); }, record.body);
  return json;
}

Json complete_json(const Record& record) {
  Json json = {{"version", record_version}};
  journal_json::write_fields(json, record);
  std::visit([&](const auto& body) { journal_json::write_body(json, body); }, record.body);
  return json;
}

Record record_from(const Json& json) {
  return record_from(json, json.is_object() ? one_line(json) : "");
}

Record record_from(const Json& json, std::string line) {
  Record record;
  record.device.clear();
  record.verdict.clear();
  if (!json.is_object()) return record;
  journal_json::read_fields(json, record);
  static_cast<void>(journal_json::read(json.value("id", Json()), record.id));
  journal_json::read_kind(json, record.kind, record.body);
  record.line = std::move(line);
  return record;
}

}  // namespace flashmoe::workflow
