#include "workflow/project/point.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "workflow/project/check_keys.hpp"
#include "workflow/project/suggest.hpp"
#include "workflow/project/tunables.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t most_choices_shown = 12;

const Tunable* find_tunable(const Project& project, const std::string& name) {
  const auto found = std::find_if(project.tunables.begin(), project.tunables.end(),
                                  [&](const Tunable& tunable) { return tunable.name == name; });
  return found == project.tunables.end() ? nullptr : &*found;
}

std::vector<std::string> names_of(const Project& project) {
  std::vector<std::string> names;
  for (const Tunable& tunable : project.tunables) names.push_back(tunable.name);
  return names;
}

// Whether the expression names it: where a broken rule is to be mended.
bool mentions(const std::string& expression, const std::string& name) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = expression.find(name); at != std::string::npos; at = expression.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !in_name(expression[at - 1])) && (end == expression.size() || !in_name(expression[end])))
      return true;
  }
  return false;
}

Result<std::string> named(const Project& project, const std::string& name) {
  std::string text;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const std::size_t end = name[at] == '{' ? name.find('}', at) : std::string::npos;
    if (end == std::string::npos) {
      text += name[at];
      continue;
    }
    const std::string inner = name.substr(at + 1, end - at - 1);
    const Tunable* tunable = find_tunable(project, inner);
    if (tunable == nullptr) {
      return Diagnostic{.message = fmt::format("\"{}\": '{}' is no tunable; tunables are {}", name, inner,
                                               list_of(names_of(project))),
                        .fix = suggestion(inner, names_of(project), "or declare it under [tunables]")};
    }
    text += value_text(*tunable, project.point.at(inner));
    at = end;
  }
  return text;
}

}  // namespace

Values default_point(const Project& project) {
  Values point;
  for (const Tunable& tunable : project.tunables) point[tunable.name] = tunable.default_value;
  return point;
}

Result<Values> parse_point(const Project& project, const std::string& text, const std::string& file) {
  const Locations locations(file);
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return locations.error_at({static_cast<int>(at.line), static_cast<int>(at.column)}, "",
                              fmt::format("is not TOML: {}", error.description()), "write lines such as rows = 64");
  }
  Values point = default_point(project);
  const std::vector<Entry> entries = in_written_order(root);
  for (const Entry& entry : entries) {
    const Tunable* tunable = find_tunable(project, entry.name);
    if (tunable == nullptr) {
      const std::vector<std::string> known = names_of(project);
      return locations.error_at(entry.position, entry.name,
                                fmt::format("is no tunable; tunables are {}", list_of(known)),
                                suggestion(entry.name, known, "or remove it, or declare it under [tunables]"));
    }
    const auto value = tunable_value(*tunable, *entry.value);
    if (!value) return locations.error_at(entry.position, entry.name, value.error().message, value.error().fix);
    point[entry.name] = *value;
  }
  const TunableRule* rule = broken_rule(project, point);
  if (rule == nullptr) return point;
  Position where{1, 1};
  std::string key;
  for (const Entry& entry : entries) {
    if (!mentions(rule->then, entry.name) && !mentions(rule->when, entry.name)) continue;
    where = entry.position;
    key = entry.name;
    break;
  }
  return locations.error_at(
      where, key, fmt::format("the point breaks {}: {}", rule->key, rule_text(*rule)),
      fmt::format("change one of its tunables; the rule is in line {} of cudadent.toml", rule->line));
}

std::string point_text(const Project& project, const Values& point) {
  std::string text;
  for (const Tunable& tunable : project.tunables) {
    text += fmt::format("{} = {}\n", tunable.name, value_text(tunable, point.at(tunable.name)));
  }
  return text;
}

Result<Done> write_point(const Project& project, const Values& point) {
  const std::string path = (std::filesystem::path(project.directory) / point_file_name).string();
  // Beside it and renamed: whoever reads it sees the old point or the new one.
  const std::string fresh = path + ".new";
  std::ofstream stream(fresh, std::ios::binary);
  stream << point_text(project, point);
  stream.close();
  std::error_code failed;
  if (stream) std::filesystem::rename(fresh, path, failed);
  if (!stream || failed) {
    return Diagnostic{.message = "cannot be written", .fix = "check space and permissions", .file = path};
  }
  return Done{};
}

bool is_kept(const TunableRule& rule, const Values& point) {
  const auto when = evaluate(rule.when, point);
  if (when && *when == 0) return true;
  const auto then = evaluate(rule.then, point);
  return when && then && *then != 0;
}

const TunableRule* broken_rule(const Project& project, const Values& point) {
  for (const TunableRule& rule : project.tunable_rules) {
    if (!is_kept(rule, point)) return &rule;
  }
  return nullptr;
}

std::string rule_text(const TunableRule& rule) {
  const std::string where = rule.when == "1" ? "" : fmt::format("where {}, ", rule.when);
  const std::string why = rule.because.empty() ? "" : fmt::format(" ({})", rule.because);
  return fmt::format("{}{} must hold{}", where, rule.then, why);
}

std::vector<Values> single_moves(const Project& project, const Values& point) {
  std::vector<Values> moves;
  for (const Tunable& tunable : project.tunables) {
    for (const double choice : tunable.choices) {
      if (choice == point.at(tunable.name)) continue;
      Values moved = point;
      moved[tunable.name] = choice;
      if (broken_rule(project, moved) == nullptr) moves.push_back(std::move(moved));
    }
  }
  return moves;
}

Values with_point(const Project& project, const Values& values) {
  Values both = values;
  both.insert(project.point.begin(), project.point.end());
  return both;
}

std::vector<std::string> point_flags(const Project& project) {
  std::vector<std::string> flags;
  for (const Tunable& tunable : project.tunables) {
    flags.push_back(fmt::format("-D{}={:.0f}", macro_of(tunable), project.point.at(tunable.name)));
  }
  return flags;
}

Result<Done> put_point_into_names(Project& project, const Locations& locations) {
  std::vector<std::pair<std::string, std::string*>> names;  // key, name
  for (std::size_t i = 0; i < project.instances.size(); ++i) {
    names.emplace_back(fmt::format("cuda.instances[{}].name", i), &project.instances[i].name);
  }
  for (std::size_t i = 0; i < project.cuda_launch.size(); ++i) {
    names.emplace_back(fmt::format("cuda.launch[{}]", i), &project.cuda_launch[i]);
  }
  for (const auto& [key, name] : names) {
    auto text = named(project, *name);
    if (!text) return locations.error(key, text.error().message, text.error().fix);
    *name = std::move(*text);
  }
  return Done{};
}

std::string macro_of(const Tunable& tunable) {
  std::string macro = tunable.name;
  for (char& c : macro) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return macro;
}

std::string value_text(const Tunable& tunable, double value) {
  if (tunable.is_boolean) return value != 0 ? "true" : "false";
  return fmt::format("{:.0f}", value);
}

std::string choices_text(const Tunable& tunable) {
  std::string text;
  for (std::size_t i = 0; i < tunable.choices.size(); ++i) {
    if (i == most_choices_shown) return fmt::format("{}, ... {}", text, value_text(tunable, tunable.choices.back()));
    text += (i == 0 ? "" : ", ") + value_text(tunable, tunable.choices[i]);
  }
  return text;
}

}  // namespace flashmoe::workflow
