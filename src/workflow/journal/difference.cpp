#include "workflow/journal/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "support/json_text.hpp"
#include "support/text.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t longest_compared_array = 8;  // longer ones are samples

// Values that differ between any two records and say nothing about what was recorded.
bool is_bookkeeping(const std::string& key) {
  return key == "id" || key == "chain" || key == "time" || key == "process" || key == "version";
}

void flatten(const Json& json, const std::string& path, std::map<std::string, Json>& into) {
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      if (path.empty() && is_bookkeeping(key)) continue;
      flatten(value, path.empty() ? key : fmt::format("{}.{}", path, key), into);
    }
  } else if (json.is_array()) {
    if (json.size() > longest_compared_array || path.ends_with("samples")) return;
    for (std::size_t i = 0; i < json.size(); ++i) flatten(json[i], path + "[" + std::to_string(i) + "]", into);
  } else {
    into[path] = json;
  }
}

Scalar scalar_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  return {};
}

SideBySide compare(const Json& a, const Json& b) {
  std::map<std::string, Json> left;
  std::map<std::string, Json> right;
  flatten(a, "", left);
  flatten(b, "", right);
  std::map<std::string, Json> keys = left;
  keys.insert(right.begin(), right.end());
  SideBySide result;
  for (const auto& [key, unused] : keys) {
    const Json x = left.contains(key) ? left[key] : Json();
    const Json y = right.contains(key) ? right[key] : Json();
    if (x == y) {
      ++result.same;
      continue;
    }
    Difference row{.key = key, .a = scalar_of(x), .b = scalar_of(y)};
    if (x.is_number() && y.is_number() && x.get<double>() != 0) row.ratio = y.get<double>() / x.get<double>();
    result.differs.push_back(std::move(row));
  }
  return result;
}

std::string cell(const Scalar& value) {
  if (std::holds_alternative<std::monostate>(value)) return "-";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.6g}", *number);
  return printable(text_of(value));
}

}  // namespace

std::string text_of(const Scalar& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto dumped = [](const auto& inner) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(inner)>, std::monostate>)
      return std::string("null");
    else
      return one_line(Json(inner));
  };
  return std::visit(dumped, value);
}

SideBySide side_by_side(const Record& a, const Record& b) {
  SideBySide result = compare(parse_json(a.line), parse_json(b.line));
  result.a = a.id;
  result.b = b.id;
  return result;
}

std::vector<Difference> explain(const Record& then, const Record& now) {
  const auto facts = [](const Record& record) {
    const Json all = parse_json(record.line);
    Json chosen = Json::object();
    for (const char* key : {"environment", "hashes", "commit", "threads", "device"}) {
      if (all.is_object() && all.contains(key)) chosen[key] = all[key];
    }
    return chosen;
  };
  return compare(facts(then), facts(now)).differs;
}

std::string side_by_side_text(const SideBySide& difference) {
  std::size_t width = 4;
  std::size_t left = 12;
  for (const Difference& row : difference.differs) {
    width = std::max(width, row.key.size());
    left = std::max(left, std::min<std::size_t>(40, cell(row.a).size()));
  }
  const auto id = [](const std::string& text) { return text.empty() ? "-" : printable(text); };
  std::string text = fmt::format("{:<{}}  {:<{}}  {}\n", "", width, id(difference.a), left, id(difference.b));
  for (const Difference& row : difference.differs) {
    text += fmt::format("{:<{}}  {:<{}}  {}", printable(row.key), width, cell(row.a), left, cell(row.b));
    if (row.ratio) text += fmt::format("  (x {:.4g})", *row.ratio);
    text += "\n";
  }
  return text + fmt::format("{} values are the same in both.\n", difference.same);
}

}  // namespace flashmoe::workflow
