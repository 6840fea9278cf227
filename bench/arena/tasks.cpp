#include "tasks.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "support/sha256.hpp"
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::arena {
namespace {

namespace fs = std::filesystem;
using workflow::Values;

constexpr std::array names{std::pair{Truth::equal, "equal"},   std::pair{Truth::faster, "faster"},
                           std::pair{Truth::slower, "slower"}, std::pair{Truth::breaks, "breaks"},
                           std::pair{Truth::wrong, "wrong"},   std::pair{Truth::cheat, "cheat"}};

Diagnostic mistake(const std::string& file, std::string message, std::string fix) {
  return {.message = std::move(message), .fix = std::move(fix), .file = file};
}

Values values_in(const toml::node_view<const toml::node>& node) {
  Values values;
  if (const toml::table* table = node.as_table()) {
    for (const auto& [key, value] : *table) values[std::string(key.str())] = value.value_or(0.0);
  }
  return values;
}

std::string text_of(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("{}{} = {:g}", text.empty() ? "" : ", ", name, value);
  return "{ " + text + " }";
}

std::string text_in(const toml::table& table, const char* key) {
  return table[key].value_or(std::string());
}

Result<Candidate> candidate_in(const toml::table& table, const std::string& file) {
  Candidate candidate{
      .name = text_in(table, "name"), .what = text_in(table, "what"), .source = text_in(table, "source")};
  const std::string word = text_in(table, "truth");
  const auto truth = truth_of(word);
  if (candidate.name.empty() || candidate.source.empty() || !truth) {
    return mistake(file,
                   fmt::format("candidate '{}' has no name, no source, or '{}' as its truth", candidate.name, word),
                   "truth is one of equal, faster, slower, breaks, wrong, cheat");
  }
  candidate.truth = *truth;
  candidate.gain = table["gain"].value<double>();
  if (table.contains("witness")) candidate.witness = values_in(table["witness"]);
  candidate.witness_values = text_in(table, "witness_values");
  const bool needs_witness = candidate.truth == Truth::breaks || candidate.truth == Truth::wrong;
  if (needs_witness != candidate.witness.has_value()) {
    return mistake(
        file, fmt::format("candidate '{}': a witness is for breaks and wrong, which must have one", candidate.name),
        "witness = { ... } with a shape at which it is wrong");
  }
  return candidate;
}

Result<std::vector<Candidate>> candidates_in(const toml::table& table, const std::string& file) {
  std::vector<Candidate> candidates;
  if (const toml::array* array = table["candidate"].as_array()) {
    for (const toml::node& node : *array) {
      const toml::table* entry = node.as_table();
      if (entry == nullptr) continue;
      auto candidate = candidate_in(*entry, file);
      if (!candidate) return candidate.error();
      candidates.push_back(std::move(*candidate));
    }
  }
  return candidates;
}

Result<toml::table> parsed(const std::string& file) {
  try {
    return toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    return Diagnostic{.message = std::string(error.description()),
                      .fix = "mend it: it is TOML",
                      .file = file,
                      .line = static_cast<int>(error.source().begin.line)};
  }
}

struct Shared {
  std::string prelude;
  std::vector<Candidate> candidates;
};

Result<Task> task_in(const toml::table& entry, const Task& family, const std::vector<Candidate>& pool,
                     const std::string& file) {
  Task task = family;
  task.name = text_in(entry, "name");
  task.target = values_in(entry["target"]);
  const toml::array* names_of = entry["candidates"].as_array();
  if (task.name.empty() || task.target.empty() || names_of == nullptr || names_of->empty()) {
    return mistake(file, fmt::format("task '{}' lacks its name, target or candidates", task.name),
                   "[[task]] with name, target = { ... } and candidates = [...]");
  }
  for (const toml::node& node : *names_of) {
    const std::string name = node.value_or(std::string());
    const auto found = std::find_if(pool.begin(), pool.end(), [&](const Candidate& one) { return one.name == name; });
    if (found == pool.end()) {
      return mistake(file, fmt::format("task {} names the candidate '{}', which there is not", task.name, name),
                     "a [[candidate]] of that name in the family or in shared.toml");
    }
    task.candidates.push_back(*found);
  }
  return task;
}

Result<Done> add_family(const std::string& file, const Shared& shared, std::vector<Task>& tasks) {
  const auto table = parsed(file);
  if (!table) return table.error();
  auto pool = candidates_in(*table, file);
  if (!pool) return pool.error();
  pool->insert(pool->end(), shared.candidates.begin(), shared.candidates.end());
  Task family{.family = text_in(*table, "name"),
              .tiny = values_in((*table)["tiny"]),
              .project = text_in(*table, "project"),
              .prelude = shared.prelude + text_in(*table, "prelude"),
              .reference = text_in(*table, "reference"),
              .base = text_in(*table, "base")};
  if (const toml::array* shapes = (*table)["sweep"].as_array()) {
    for (const toml::node& shape : *shapes) {
      family.sweep.push_back(values_in(toml::node_view<const toml::node>(shape)));
    }
  }
  if (family.family.empty() || family.base.empty() || family.reference.empty()) {
    return mistake(file, "the family lacks its name, base or reference", "see families/chain.toml");
  }
  const toml::array* entries = (*table)["task"].as_array();
  if (entries == nullptr) return mistake(file, "the family has no task", "[[task]]");
  for (const toml::node& node : *entries) {
    auto task = task_in(*node.as_table(), family, *pool, file);
    if (!task) return task.error();
    const bool known = std::any_of(tasks.begin(), tasks.end(), [&](const Task& one) { return one.name == task->name; });
    if (known) return mistake(file, "there are two tasks of the name " + task->name, "rename one");
    tasks.push_back(std::move(*task));
  }
  return Done{};
}

}  // namespace

const char* name_of(Truth truth) {
  for (const auto& [value, name] : names) {
    if (value == truth) return name;
  }
  return "";
}

std::optional<Truth> truth_of(const std::string& name) {
  for (const auto& [value, known] : names) {
    if (name == known) return value;
  }
  return std::nullopt;
}

bool is_honest(Truth truth) {
  return truth == Truth::equal || truth == Truth::faster || truth == Truth::slower;
}

Result<std::vector<Task>> read_tasks(const std::string& directory) {
  const std::string shared_file = (fs::path(directory) / "shared.toml").string();
  const auto shared_table = parsed(shared_file);
  if (!shared_table) return shared_table.error();
  auto shared_candidates = candidates_in(*shared_table, shared_file);
  if (!shared_candidates) return shared_candidates.error();
  const Shared shared{text_in(*shared_table, "prelude"), std::move(*shared_candidates)};
  std::set<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(directory) / "families", ignored)) {
    if (entry.path().extension() == ".toml") files.insert(entry.path().string());
  }
  std::vector<Task> tasks;
  for (const std::string& file : files) {
    if (const auto added = add_family(file, shared, tasks); !added) return added.error();
  }
  if (tasks.empty())
    return mistake(directory, "there are no families/*.toml here", "--data with the folder bench/arena");
  return tasks;
}

std::map<std::string, std::string> files_of(const Task& task, const std::string& source) {
  const workflow::Task project{.name = task.name,
                               .toml = fmt::format("{}\n[workloads]\ntiny = {}\ntarget = {}\n", task.project,
                                                   text_of(task.tiny), text_of(task.target)),
                               .prelude = task.prelude,
                               .reference = task.reference};
  return workflow::project_files(project, {.name = "candidate", .what = "", .source = source});
}

std::string data_hash(const Task& task, const Candidate* candidate) {
  std::string text;
  for (const auto& [name, content] : files_of(task, task.base)) text += name + '\0' + content + '\0';
  for (const Values& shape : task.sweep) text += text_of(shape) + '\0';
  if (candidate != nullptr) {
    text += candidate->source + '\0' + name_of(candidate->truth) + '\0' +
            fmt::format("{}", candidate->gain.value_or(0)) + '\0' + text_of(candidate->witness.value_or(Values{})) +
            '\0' + candidate->witness_values;
  }
  return sha256_hex(text).substr(0, 16);
}

}  // namespace flashmoe::arena
