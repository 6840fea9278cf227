#include "workflow/advise/rules.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "support/whole_file.hpp"
#include "workflow/advise/builtin.hpp"
#include "workflow/advise/counters.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct Field {
  const char* name;
  std::string Rule::*value;
  bool required = true;
};
constexpr std::array fields{Field{"name", &Rule::name},
                            Field{"bottleneck", &Rule::bottleneck},
                            Field{"when", &Rule::when},
                            Field{"says", &Rule::says},
                            Field{"line", &Rule::line, false},
                            Field{"change", &Rule::change},
                            Field{"phase", &Rule::phase},
                            Field{"counter", &Rule::counter},
                            Field{"to", &Rule::to},
                            Field{"gain", &Rule::gain},
                            Field{"stays_when_fake", &Rule::stays_when_fake}};

class Reader {
 public:
  Reader(std::string file, const Values& counters) : file_(std::move(file)), counters_(counters) {
    for (const auto& [name, value] : counters) known_[name] = 1;
  }

  Result<RuleSet> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key != "values" && key != "rule")
        return at(node, std::string(key), "is no part of a file of rules", "[values] or [[rule]]");
    }
    if (const toml::table* values = root["values"].as_table()) {
      // In the order of the file: one may stand on those before it.
      std::vector<std::pair<const toml::key*, const toml::node*>> ordered;
      for (const auto& [key, node] : *values) ordered.emplace_back(&key, &node);
      std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
        return a.second->source().begin.line < b.second->source().begin.line;
      });
      for (const auto& [key, node] : ordered) {
        if (auto added = add_value(std::string(key->str()), *node); !added) return added.error();
      }
    }
    if (const toml::array* list = root["rule"].as_array()) {
      for (const toml::node& node : *list) {
        const toml::table* table = node.as_table();
        if (table == nullptr) return at(node, "rule", "is no table", "write [[rule]]");
        if (auto added = add_rule(*table); !added) return added.error();
      }
    }
    return std::move(set_);
  }

 private:
  Diagnostic at(const toml::node& node, const std::string& key, const std::string& message,
                const std::string& fix) const {
    return {.message = message,
            .fix = fix,
            .file = file_,
            .line = static_cast<int>(node.source().begin.line),
            .column = static_cast<int>(node.source().begin.column),
            .key = key,
            .code = codes::usage_rules};
  }

  // With every counter 1, an expression must have a value: names and syntax are right then.
  Result<Done> check_expression(const toml::node& node, const std::string& key, const std::string& text) const {
    const auto value = evaluate(text, known_);
    if (!value) return at(node, key, fmt::format("\"{}\": {}", text, value.error().message), value.error().fix);
    return Done{};
  }

  Result<Done> add_value(const std::string& name, const toml::node& node) {
    const auto text = node.value<std::string>();
    if (!text) return at(node, "values." + name, "is no expression", "write it in quotes");
    if (auto read = check_expression(node, "values." + name, *text); !read) return read;
    known_[name] = 1;
    set_.values.emplace_back(name, *text);
    return Done{};
  }

  Result<Done> add_rule(const toml::table& table) {
    Rule rule{.place = static_cast<int>(table.source().begin.line)};
    for (const auto& [key, node] : table) {
      const auto field =
          std::find_if(fields.begin(), fields.end(), [&, name = key.str()](const Field& f) { return name == f.name; });
      if (field == fields.end())
        return at(node, std::string(key), "is no field of a rule", "see the built-in rules: cudadent advise --rules");
      const auto text = node.value<std::string>();
      if (!text) return at(node, std::string(key), "is no text", "write it in quotes");
      rule.*(field->value) = *text;
    }
    for (const Field& field : fields) {
      if (field.required && (rule.*(field.value)).empty())
        return at(table, field.name, fmt::format("is missing in rule '{}'", rule.name),
                  fmt::format("add {} = \"...\"", field.name));
    }
    for (const auto& [key, text] :
         {std::pair{"when", &rule.when}, std::pair{"to", &rule.to}, std::pair{"gain", &rule.gain}}) {
      if (auto read = check_expression(*table.get(key), key, *text); !read) return read;
    }
    for (const auto& [key, text] :
         {std::pair{"counter", &rule.counter}, std::pair{"stays_when_fake", &rule.stays_when_fake}}) {
      if (!counters_.contains(*text))
        return at(*table.get(key), key, fmt::format("'{}' is no counter", *text),
                  "cudadent advise --counters lists them");
    }
    set_.rules.push_back(std::move(rule));
    return Done{};
  }

  std::string file_;
  const Values& counters_;
  Values known_{};  // with the values that the file computes
  RuleSet set_{};
};

}  // namespace

Result<RuleSet> parse_rules(const std::string& text, const std::string& file, const Values& counters) {
  try {
    return Reader(file, counters).read(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    return Diagnostic{.message = fmt::format("is not TOML: {}", error.description()),
                      .file = file,
                      .line = static_cast<int>(error.source().begin.line),
                      .column = static_cast<int>(error.source().begin.column),
                      .code = codes::usage_rules};
  }
}

Result<RuleSet> parse_rules(const std::string& text, const std::string& file) {
  return parse_rules(text, file, counters_of(LaunchReport{}));
}

Result<RuleSet> builtin_rules() {
  return parse_rules(builtin_rules_text(), "rules.toml");
}

Result<RuleSet> rules_for(const Project& project) {
  auto all = builtin_rules();
  if (!all) return all;
  const std::filesystem::path file = std::filesystem::path(project.directory) / project_rules_file;
  const auto text = whole_file(file.string());
  if (!text) return all;  // most have none
  auto own = parse_rules(*text, file.string());
  if (!own) return own;
  for (auto& value : own->values) all->values.push_back(std::move(value));
  for (Rule& rule : own->rules) {
    std::erase_if(all->rules, [&](const Rule& other) { return other.name == rule.name; });
    all->rules.push_back(std::move(rule));
  }
  return all;
}

}  // namespace flashmoe::workflow
