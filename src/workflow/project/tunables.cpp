#include "workflow/project/tunables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "workflow/project/check_keys.hpp"
#include "workflow/project/point.hpp"

namespace flashmoe::workflow {
namespace {

using View = toml::node_view<const toml::node>;
using Failure = std::optional<Diagnostic>;

constexpr double most_choices = 4096;  // of a range: a typo, not a domain
constexpr double most_value = 1e9;     // a macro in somebody's int

std::optional<double> of_kind(const toml::node& node, bool is_boolean) {
  if (is_boolean) {
    const auto value = node.value_exact<bool>();
    return value ? std::optional(*value ? 1.0 : 0.0) : std::nullopt;
  }
  const auto value = node.value_exact<std::int64_t>();
  if (!value || std::abs(static_cast<double>(*value)) > most_value) return std::nullopt;
  return static_cast<double>(*value);
}

class TunableReader {
 public:
  TunableReader(const toml::table& root, const Locations& locations, Project& project)
      : root_(root), locations_(locations), project_(project) {}

  Failure read() {
    if (const toml::table* table = root_["tunables"].as_table()) {
      for (const Entry& entry : in_written_order(*table)) {
        if (Failure failure = tunable(entry)) return failure;
      }
    }
    if (const toml::array* array = root_["tunable_rules"].as_array()) {
      for (std::size_t i = 0; i < array->size(); ++i) {
        rule(View(array->get(i)), fmt::format("tunable_rules[{}]", i));
      }
    }
    project_.point = default_point(project_);
    return rules_hold();
  }

 private:
  Failure tunable(const Entry& entry) {
    const std::string key = "tunables." + entry.name;
    const View view(entry.value);
    Tunable tunable{.name = entry.name, .line = entry.position.line};
    if (const auto [place, fresh] = macros_.emplace(macro_of(tunable), entry.name); !fresh) {
      return locations_.error(
          key, fmt::format("'{}' and '{}' are the same macro {}", place->second, entry.name, place->first),
          "rename one of them: compilers get the names in upper case");
    }
    if (Failure failure = domain(view, key, tunable)) return failure;
    tunable.default_value = tunable.choices.front();
    if (view["default"]) {
      const auto value = tunable_value(tunable, *view["default"].node());
      if (!value) return locations_.error(key + ".default", value.error().message, value.error().fix);
      tunable.default_value = *value;
    }
    tunable.phase = view["phase"].value_or(tunable.phase);
    tunable.counter = view["counter"].value_or(std::string());
    tunable.on = view["on"].value_or(std::string());
    if (view["requires"]) {
      project_.tunable_rules.push_back({.key = key + ".requires",
                                        .then = expression(view["requires"]),
                                        .line = locations_.of(key + ".requires").line});
    }
    project_.tunables.push_back(std::move(tunable));
    return {};
  }

  Failure domain(View view, const std::string& key, Tunable& tunable) const {
    const toml::array* choices = view["choices"].as_array();
    const toml::array* range = view["range"].as_array();
    if ((choices == nullptr) == (range == nullptr)) {
      return locations_.error(key, choices ? "has both choices and range" : "has no domain",
                              choices ? "keep one of them" : "add choices = [1, 2, 4] or range = [1, 8]");
    }
    if (range) {
      const auto least = range->size() == 2 ? range->get(0)->value_exact<std::int64_t>() : std::nullopt;
      const auto largest = range->size() == 2 ? range->get(1)->value_exact<std::int64_t>() : std::nullopt;
      const auto fits = [](auto value) { return value && std::abs(static_cast<double>(*value)) <= most_value; };
      if (!fits(least) || !fits(largest) || *least > *largest ||
          static_cast<double>(*largest - *least) >= most_choices) {
        return locations_.error(
            key + ".range",
            fmt::format("is not [least, largest] of two integers with at most {:g} between", most_choices),
            "write range = [1, 8]");
      }
      for (std::int64_t value = *least; value <= *largest; ++value)
        tunable.choices.push_back(static_cast<double>(value));
      return {};
    }
    if (choices->empty()) return locations_.error(key + ".choices", "is empty", "name at least one value");
    tunable.is_boolean = choices->get(0)->is_boolean();
    for (std::size_t i = 0; i < choices->size(); ++i) {
      const std::string where = fmt::format("{}.choices[{}]", key, i);
      const auto value = of_kind(*choices->get(i), tunable.is_boolean);
      if (!value) return locations_.error(where, "is neither an integer nor, like its neighbours, true or false");
      if (std::find(tunable.choices.begin(), tunable.choices.end(), *value) != tunable.choices.end()) {
        return locations_.error(where, "stands there twice", "remove one of the two");
      }
      tunable.choices.push_back(*value);
    }
    return {};
  }

  void rule(View view, const std::string& key) {
    TunableRule rule{.key = key,
                     .then = expression(view["then"]),
                     .because = view["because"].value_or(std::string()),
                     .line = locations_.of(key).line};
    if (view["when"]) rule.when = expression(view["when"]);
    project_.tunable_rules.push_back(std::move(rule));
  }

  static std::string expression(View view) {
    if (const auto* integer = view.as_integer()) return fmt::format("{}", integer->get());
    return view.value_or(std::string());
  }

  // Names in them are wrong or right whatever the values are: an expression is always read to its end.
  Failure rules_hold() const {
    for (const TunableRule& rule : project_.tunable_rules) {
      const bool is_short = rule.key.starts_with("tunables.");
      for (const auto& [name, text] : {std::pair{".when", &rule.when}, std::pair{".then", &rule.then}}) {
        const auto value = evaluate(*text, project_.point);
        if (value) continue;
        return locations_.error(is_short ? rule.key : rule.key + name, value.error().message,
                                "use tunables only: the rules are about them alone", value.error().column - 1);
      }
      if (is_kept(rule, project_.point)) continue;
      return locations_.error(rule.key, fmt::format("the defaults break this rule: {}", rule_text(rule)),
                              "change a default, so that a project without a point.toml has a legal point");
    }
    return {};
  }

  const toml::table& root_;
  const Locations& locations_;
  Project& project_;
  std::map<std::string, std::string> macros_;  // -> the tunable's name
};

}  // namespace

Result<double> tunable_value(const Tunable& tunable, const toml::node& node) {
  const auto value = of_kind(node, tunable.is_boolean);
  if (!value) {
    return Diagnostic{.message = fmt::format("is not {}", tunable.is_boolean ? "true or false" : "an integer"),
                      .fix = fmt::format("the choices of '{}' are {}", tunable.name, choices_text(tunable))};
  }
  if (std::find(tunable.choices.begin(), tunable.choices.end(), *value) == tunable.choices.end()) {
    return Diagnostic{.message = fmt::format("is {}; the choices of '{}' are {}", value_text(tunable, *value),
                                             tunable.name, choices_text(tunable)),
                      .fix = fmt::format("use one of them, or add it to tunables.{}", tunable.name)};
  }
  return *value;
}

Result<Done> read_tunables(const toml::table& root, const Locations& locations, Project& project) {
  if (Failure failure = TunableReader(root, locations, project).read()) return std::move(*failure);
  return Done{};
}

}  // namespace flashmoe::workflow
