#include "workflow/journal/partial.hpp"

#include <filesystem>

#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "workflow/journal/json.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {
namespace {

PartialHeader header_from(const Json& json) {
  PartialHeader header;
  if (const Json* seed = field_in(json, "seed"); seed != nullptr && seed->is_number_unsigned()) {
    header.seed = seed->get<std::uint64_t>();
  }
  header.index = static_cast<int>(number_in(json, "index"));
  if (field_in(json, "key") != nullptr) header.key = text_in(json, "key");
  if (field_in(json, "run") != nullptr) header.run = text_in(json, "run");
  return header;
}

}  // namespace

PartialComparison::PartialComparison(const std::string& project_directory, const std::string& key)
    : path_((std::filesystem::path(project_directory) / ".cudadent" / "partial" / (key + ".jsonl")).string()) {}

bool PartialComparison::exists() const {
  std::error_code error;
  return std::filesystem::exists(path_, error);
}

Result<PartialPairs> PartialComparison::load() const {
  const auto lines = read_lines(path_);
  if (!lines) return lines.error();
  PartialPairs partial;
  for (const std::string& line : lines->whole) {
    const Json json = bounded_json(line);
    if (const Json* header = field_in(json, "header")) {
      partial.header = header_from(*header);
      continue;
    }
    const Json* stored = field_in(json, "sample");
    PairSample sample;
    if (stored == nullptr || !pair_from(*stored, sample)) continue;
    Comparison& comparison = partial.comparison;
    (flag_in(json, "calibrating") ? comparison.calibration_pairs : comparison.pairs).push_back(std::move(sample));
  }
  return partial;
}

Result<Done> PartialComparison::begin(const PartialHeader& header) const {
  forget();
  Json json = Json::object();
  if (header.seed) json["seed"] = *header.seed;
  json["index"] = header.index;
  if (header.key) json["key"] = *header.key;
  if (header.run) json["run"] = *header.run;
  return append_line(path_, one_line({{"header", json}}));
}

Result<Done> PartialComparison::add(bool calibrating, const PairSample& sample) const {
  return append_line(path_, one_line({{"calibrating", calibrating}, {"sample", to_json(sample)}}));
}

void PartialComparison::forget() const {
  std::error_code error;
  std::filesystem::remove(path_, error);
}

std::string comparison_key(const ComparisonIdentity& identity) {
  const Json json = {identity.base_sha256,   identity.candidate_sha256,
                     identity.workload,      identity.host ? Json(*identity.host) : Json(nullptr),
                     identity.block_seconds, identity.final_claim};
  return sha256_hex(one_line(json)).substr(0, 16);
}

}  // namespace flashmoe::workflow
