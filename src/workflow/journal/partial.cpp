#include "workflow/compare/partial.hpp"

#include <filesystem>

#include "workflow/journal/fields.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {

PartialComparison::PartialComparison(const std::string& project_directory, const std::string& key)
    : path_((std::filesystem::path(project_directory) / ".cudadent" / "partial" / (key + ".jsonl")).string()) {}

bool PartialComparison::exists() const {
  std::error_code error;
  return std::filesystem::exists(path_, error);
}

Result<Comparison> PartialComparison::load(Json& header) const {
  const auto lines = read_lines(path_);
  if (!lines) return lines.error();
  Comparison comparison;
  for (const std::string& line : lines->whole) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("header")) {
      header = json["header"];
      continue;
    }
    const auto sample = pair_from_json(field(json, "sample"));
    if (!sample) continue;
    (field(json, "calibrating") == Json(true) ? comparison.calibration_pairs : comparison.pairs).push_back(*sample);
  }
  return comparison;
}

Result<Done> PartialComparison::begin(const Json& header) const {
  forget();
  return append_line(path_, Json{{"header", header}}.dump());
}

Result<Done> PartialComparison::add(bool calibrating, const PairSample& sample) const {
  return append_line(path_, Json{{"calibrating", calibrating}, {"sample", to_json(sample)}}.dump());
}

void PartialComparison::forget() const {
  std::error_code error;
  std::filesystem::remove(path_, error);
}

}  // namespace flashmoe::workflow
