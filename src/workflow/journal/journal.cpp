#include "workflow/journal/journal.hpp"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "support/sha256.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/fields.hpp"
#include "workflow/journal/line_file.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int id_digits = 12;

std::string utc_text(const char* format, std::time_t seconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), format, &parts);
  return {text.data(), length};
}

// Bytes that are no UTF-8 (a compiler's message in another encoding) must not cost the record.
std::string one_line(const Json& record) {
  return record.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The writer's own fields win; the rest is learned here, in the order in which people read a record.
Json completed(Json record, const std::string& directory) {
  Json full = Json::object();
  const auto take = [&](const char* key, const auto& otherwise) {
    const auto found = record.find(key);
    if (found != record.end()) {
      full[key] = *found;
      record.erase(key);
    } else {
      full[key] = otherwise();
    }
  };
  record.erase("id");
  full["version"] = record_version;
  record.erase("version");
  take("kind", [] { return Json("note"); });
  take("time", [] { return Json(utc_now()); });
  take("run", [] { return Json(current_run()); });
  take("project", [&] { return Json(std::filesystem::path(directory).filename().string()); });
  if (!record.contains("commit") || !record.contains("dirty")) {
    const TreeState tree = tree_state(directory);
    if (!record.contains("commit")) record["commit"] = tree.commit.empty() ? Json(nullptr) : Json(tree.commit);
    if (!record.contains("dirty")) record["dirty"] = tree.dirty;
  }
  take("commit", [] { return Json(nullptr); });
  take("dirty", [] { return Json(false); });
  take("device", [] { return Json("cpu"); });
  take("verdict", [] { return Json("none"); });
  take("seconds", [] { return Json(0.0); });
  const Json prices = field(record, "cost_per_hour");
  take("cost",
       [&] { return cost_of(number_of(full, "seconds"), number_of(prices, "machine"), number_of(prices, "agent")); });
  take("hashes", [] { return Json::object(); });
  take("environment", [] { return machine_facts(); });
  full["process"] = ::getpid();
  for (auto& [key, value] : record.items()) full[key] = value;
  return full;
}

// Build products and records are nobody's commit by accident.
void keep_out_of_git(const std::filesystem::path& state_directory) {
  std::error_code error;
  const std::filesystem::path ignore = state_directory / ".gitignore";
  if (std::filesystem::exists(ignore, error)) return;
  std::filesystem::create_directories(state_directory, error);
  std::ofstream(ignore) << "*\n";
}

}  // namespace

std::string utc_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  std::string fraction = std::to_string(micros % 1'000'000);
  fraction.insert(0, 6 - fraction.size(), '0');
  return utc_text("%Y-%m-%dT%H:%M:%S", static_cast<std::time_t>(micros / 1'000'000)) + "." + fraction + "Z";
}

std::string current_run() {
  const char* run = std::getenv("CUDADENT_RUN");
  return run != nullptr && *run != '\0' ? run : utc_text("%Y-%m-%d", std::time(nullptr));
}

Journal::Journal(std::string project_directory) {
  std::error_code error;
  const auto absolute = std::filesystem::weakly_canonical(project_directory, error);
  directory_ = error ? std::move(project_directory) : absolute.string();
  path_ = (std::filesystem::path(directory_) / ".cudadent" / "records.jsonl").string();
}

Result<Json> Journal::append(Json record) {
  if (!record.is_object()) return Diagnostic{.message = "a record must be a JSON object", .file = path_};
  keep_out_of_git(std::filesystem::path(path_).parent_path());
  Json full = completed(std::move(record), directory_);
  Json identified = {{"version", record_version}, {"id", sha256_hex(one_line(full)).substr(0, id_digits)}};
  for (auto& [key, value] : full.items()) identified[key] = value;
  const auto written = append_line(path_, one_line(identified));
  if (!written) return written.error();
  return identified;
}

Result<std::vector<Json>> Journal::read(int* damaged) const {
  const auto lines = read_lines(path_);
  if (!lines) return lines.error();
  std::vector<Json> records;
  int broken = lines->torn_end ? 1 : 0;
  for (const std::string& line : lines->whole) {
    Json record = Json::parse(line, nullptr, false);
    const bool reads = record.is_object() && record.contains("id") && record["id"].is_string() &&
                       record.contains("version") && record["version"].is_number_integer() && record.contains("kind") &&
                       record["kind"].is_string();
    if (reads) {
      records.push_back(std::move(record));
    } else {
      ++broken;
    }
  }
  if (damaged != nullptr) *damaged = broken;
  return records;
}

Result<Json> Journal::find(const std::string& id_prefix) const {
  auto records = read();
  if (!records) return records.error();
  const Json* found = nullptr;
  for (const Json& record : *records) {
    if (id_prefix.empty() || !record["id"].get<std::string>().starts_with(id_prefix)) continue;
    if (found != nullptr && (*found)["id"] != record["id"]) {
      return Diagnostic{.message = "record id '" + id_prefix + "' is ambiguous: " + (*found)["id"].get<std::string>() +
                                   " and " + record["id"].get<std::string>(),
                        .fix = "give more digits",
                        .file = path_};
    }
    found = &record;
  }
  if (found == nullptr) {
    return Diagnostic{.message = "no record '" + id_prefix + "' among " + std::to_string(records->size()),
                      .fix = "cudadent journal lists them",
                      .file = path_};
  }
  return *found;
}

}  // namespace flashmoe::workflow
