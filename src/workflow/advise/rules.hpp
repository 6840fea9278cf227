// Rules as data: what limits a kernel, what to change, and which counter has to move. The built-in ones are rules.toml
// of this folder; a project adds its own.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {

struct Rule {
  std::string name{};             // "grid"
  std::string bottleneck{};       // in words
  std::string when{};             // an expression over the counters of a launch
  std::string says{};             // the evidence: {name} is a counter's value
  std::string line{};             // what of a source line's counts points at it; empty: none does
  std::string change{};           // the one change
  std::string phase{};            // of Thresholds::least_gain
  std::string counter{};          // must move
  std::string to{};               // at least so far; an expression
  std::string gain{};             // expected factor on the launch's time; an expression
  std::string stays_when_fake{};  // the counter that a change in name only leaves as it is
  int place = 0;                  // line in its file
};

struct RuleSet {
  std::vector<std::pair<std::string, std::string>> values{};  // names for expressions, in the order they are computed
  std::vector<Rule> rules{};
};

// Errors carry file, line and key: a missing field, a name that is no counter, an expression that does not read.
// `counters`: the names there are.
[[nodiscard]] Result<RuleSet> parse_rules(const std::string& text, const std::string& file, const Values& counters);
// Over the counters of a launch.
[[nodiscard]] Result<RuleSet> parse_rules(const std::string& text, const std::string& file);
[[nodiscard]] Result<RuleSet> builtin_rules();
// The built-in ones and those of the project's advice.toml, which replace them by name.
[[nodiscard]] Result<RuleSet> rules_for(const Project& project);

inline constexpr const char* project_rules_file = "advice.toml";

}  // namespace flashmoe::workflow
