#include "workflow/journal/listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "workflow/journal/fields.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t longest_compared_array = 8;  // longer ones are samples

// Values that differ between any two records and say nothing about what was recorded.
bool is_bookkeeping(const std::string& key) {
  return key == "id" || key == "time" || key == "process" || key == "version";
}

void flatten(const Json& json, const std::string& path, std::map<std::string, Json>& into) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (path.empty() && is_bookkeeping(key)) continue;
      flatten(value, path.empty() ? key : path + "." + key, into);
    }
  } else if (json.is_array()) {
    if (json.size() > longest_compared_array || path.ends_with("samples")) return;
    for (std::size_t i = 0; i < json.size(); ++i) flatten(json[i], path + "[" + std::to_string(i) + "]", into);
  } else {
    into[path] = json;
  }
}

std::string cell(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

}  // namespace

std::string detail_of(const Json& record) {
  const std::string kind = text_of(record, "kind");
  if (kind == "compare") {
    std::string detail;
    const Json gain = field(record, "gain");
    if (gain.is_object()) {
      detail = fmt::format("{} [{}, {}] ", gain_text(field(gain, "mean")), gain_text(field(gain, "lower")),
                           gain_text(field(gain, "upper")));
    }
    const std::string base = text_of(field(record, "base"), "name");
    const std::string candidate = text_of(field(record, "candidate"), "name");
    if (!base.empty()) detail += text_of(record, "workload") + ": " + base + " -> " + candidate;
    if (const std::string note = text_of(record, "note"); !note.empty()) detail += "  (" + note + ")";
    return detail;
  }
  if (kind == "gate") {
    std::string detail;
    for (const Json& gate : record.value("gates", Json::array())) {
      detail += (detail.empty() ? "" : ", ") + text_of(gate, "gate") + " " + text_of(gate, "outcome");
    }
    return detail.empty() ? text_of(record, "summary") : detail;
  }
  const std::string summary = text_of(record, "summary");
  return summary.empty() ? text_of(record, "note") : summary;
}

std::string list_header() {
  return fmt::format("{:<12}  {:<19}  {:<10}  {:<10}  {:<17}  {:<13}  {:>8}  {:>8}  {}", "id", "time (UTC)", "run",
                     "kind", "verdict", "commit", "seconds", "$", "what");
}

std::string list_line(const Json& record) {
  std::string commit = text_of(record, "commit").substr(0, 12);
  if (field(record, "dirty") == Json(true)) commit += "+";
  return fmt::format("{:<12}  {:<19}  {:<10}  {:<10}  {:<17}  {:<13}  {:>8.1f}  {:>8.4f}  {}", text_of(record, "id"),
                     text_of(record, "time").substr(0, 19), text_of(record, "run"), text_of(record, "kind"),
                     text_of(record, "verdict"), commit.empty() ? "-" : commit, number_of(record, "seconds"),
                     number_of(field(record, "cost"), "total"), detail_of(record));
}

Json side_by_side(const Json& a, const Json& b) {
  std::map<std::string, Json> left;
  std::map<std::string, Json> right;
  flatten(a, "", left);
  flatten(b, "", right);
  std::map<std::string, Json> keys = left;
  keys.insert(right.begin(), right.end());
  Json result = {{"a", field(a, "id")}, {"b", field(b, "id")}, {"same", 0}, {"differs", Json::array()}};
  int same = 0;
  for (const auto& [key, unused] : keys) {
    const Json x = left.contains(key) ? left[key] : Json();
    const Json y = right.contains(key) ? right[key] : Json();
    if (x == y) {
      ++same;
      continue;
    }
    Json row = {{"key", key}, {"a", x}, {"b", y}};
    if (x.is_number() && y.is_number() && x.get<double>() != 0) row["ratio"] = y.get<double>() / x.get<double>();
    result["differs"].push_back(std::move(row));
  }
  result["same"] = same;
  return result;
}

std::string side_by_side_text(const Json& difference) {
  std::size_t width = 4;
  std::size_t left = 12;
  for (const Json& row : difference["differs"]) {
    width = std::max(width, row["key"].get<std::string>().size());
    left = std::max(left, std::min<std::size_t>(40, cell(row["a"]).size()));
  }
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", "", width, cell(difference["a"]), left, cell(difference["b"]));
  for (const Json& row : difference["differs"]) {
    text +=
        fmt::format("{:<{}}  {:<{}}  {}", row["key"].get<std::string>(), width, cell(row["a"]), left, cell(row["b"]));
    if (row.contains("ratio")) text += fmt::format("  (x {:.4g})", row["ratio"].get<double>());
    text += "\n";
  }
  return text + fmt::format("{} values are the same in both.\n", difference["same"].get<int>());
}

Result<Json> known_good_of(const Json& record) {
  const std::string id = text_of(record, "id");
  const std::string verdict = text_of(record, "verdict");
  const bool holds = verdict == "holds" || verdict == "KEEP";
  if (!holds) {
    return Diagnostic{.message = "record " + id + " says '" + verdict + "': only a run that holds is known good",
                      .fix = "choose a gate record that holds, or a comparison that says KEEP"};
  }
  if (text_of(record, "commit").empty() || field(record, "dirty") == Json(true)) {
    return Diagnostic{.message = "record " + id + " was made on a tree that is no commit",
                      .fix = "git commit, run the gate again, and keep that record"};
  }
  return Json{{"kind", "known_good"},
              {"run", field(record, "run")},
              {"project", field(record, "project")},
              {"commit", record["commit"]},
              {"dirty", false},
              {"device", record.value("device", Json("cpu"))},
              {"verdict", verdict},
              {"of", id},
              {"summary", detail_of(record)},
              {"hashes", record.value("hashes", Json::object())},
              {"recipe", field(record, "recipe")}};
}

}  // namespace flashmoe::workflow
