#include "workflow/journal/listing.hpp"

#include <fmt/format.h>

#include "support/text.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

std::string detail(const CompareRecord& compare) {
  std::string text;
  if (compare.gain) text = gain_text(*compare.gain) + " ";
  if (compare.base && !compare.base->name.empty()) {
    text += fmt::format("{}: {} -> {}", compare.workload.value_or(""), compare.base->name,
                        compare.candidate ? compare.candidate->name : "");
  }
  if (!compare.note.value_or("").empty()) text += "  (" + *compare.note + ")";
  return text;
}

std::string detail(const IterationRecord& iteration) {
  return iteration.hypothesis.empty() ? iteration.summary : iteration.hypothesis + ": " + iteration.summary;
}

std::string detail(const ProfileRecord& record) {
  return record.summary;
}

std::string detail(const RunRecord& record) {
  return record.summary;
}

std::string detail(const BatchRecord& record) {
  return record.summary;
}

std::string detail(const CountRecord& record) {
  return record.summary;
}

std::string detail(const TraceRecord& record) {
  return record.summary;
}

std::string detail(const GateRecord& run) {
  std::string text;
  for (const GateResult& gate : run.gates) {
    if (gate.not_run) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", gate.gate, name_of(gate.outcome));
  }
  return text.empty() ? run.summary : text;
}

std::string detail(const OtherRecord& other) {
  return other.summary.empty() ? other.note : other.summary;
}

std::string detail(const KnownGoodRecord& good) {
  return good.summary;
}

std::string detail(const ReproduceRecord& again) {
  return again.summary;
}

std::string detail(const SelftestRecord& /*selftest*/) {
  return "";
}

}  // namespace

std::string gain_text(const std::optional<double>& gain) {
  return gain ? fmt::format("{:+.2f} %", 100 * *gain) : "unbounded";
}

std::string gain_text(const Gain& gain) {
  return fmt::format("{} [{}, {}]", gain_text(gain.mean), gain_text(gain.lower), gain_text(gain.upper));
}

std::string detail_of(const Record& record) {
  return std::visit([](const auto& body) { return detail(body); }, record.body);
}

std::string list_header() {
  return fmt::format("{:<12}  {:<19}  {:<10}  {:<10}  {:<17}  {:<13}  {:>8}  {:>8}  {}", "id", "time (UTC)", "run",
                     "kind", "verdict", "commit", "seconds", "$", "what");
}

std::string list_line(const Heading& heading) {
  std::string commit = heading.commit.value_or("").substr(0, 12);
  if (heading.dirty) commit += "+";
  const bool whole = heading.standing == Standing::chained;
  return printable(fmt::format("{:<12}  {:<19}  {:<10}  {:<10}  {:<17}  {:<13}  {:>8.1f}  {:>8.4f}  {}{}", heading.id,
                               heading.time.substr(0, 19), heading.run, heading.kind, heading.verdict,
                               commit.empty() ? "-" : commit, heading.seconds, heading.dollars,
                               whole ? "" : fmt::format("[{}] ", name_of(heading.standing)), heading.detail));
}

std::string list_line(const Record& record) {
  return list_line(heading_of(record));
}

Result<Record> known_good_of(const Record& record) {
  if (record.standing == Standing::foreign || record.standing == Standing::changed) {
    return Diagnostic{.message = fmt::format("record {} is {}: {}", record.id, name_of(record.standing),
                                             printable(record.standing_why)),
                      .fix = "run the gate here, and keep that record",
                      .code = codes::journal_not_known_good};
  }
  const bool judges = record.as<ProfileRecord>() == nullptr;  // a bottleneck is named of slow kernels, too
  const bool holds = judges && (record.verdict == "holds" || record.verdict == "KEEP");
  if (!holds) {
    return Diagnostic{
        .message = "record " + record.id + " says '" + record.verdict + "': only a run that holds is known good",
        .fix = "choose a gate record that holds, or a comparison that says KEEP",
        .code = codes::journal_not_known_good};
  }
  if (record.commit.value_or("").empty() || record.dirty.value_or(false)) {
    return Diagnostic{.message = "record " + record.id + " was made on a tree that is no commit",
                      .fix = "git commit, run the gate again, and keep that record",
                      .code = codes::journal_not_known_good};
  }
  KnownGoodRecord good{.of = record.id, .summary = detail_of(record)};
  if (const auto* compare = record.as<CompareRecord>()) good.recipe = compare->recipe;
  if (const auto* earlier = record.as<KnownGoodRecord>()) good.recipe = earlier->recipe;
  Record made;
  made.run = record.run;
  made.project = record.project;
  made.commit = record.commit;
  made.dirty = false;
  if (!record.device.empty()) made.device = record.device;
  made.verdict = record.verdict;
  made.hashes = record.hashes;
  made.body = std::move(good);
  return made;
}

}  // namespace flashmoe::workflow
