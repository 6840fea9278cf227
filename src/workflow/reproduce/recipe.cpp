#include "workflow/reproduce/recipe.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <string_view>

#include "support/text.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

template <class T>
bool is_number(const std::string& text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value >= low && value <= high;
}

bool is_seed(const std::string& text) {
  return is_number<std::uint64_t>(text, 0, UINT64_MAX);
}

// The name of a workload or a phase: no path, no option.
bool is_name(const std::string& text) {
  constexpr std::size_t longest = 100;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !text.empty() && text.size() <= longest && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), allowed);
}

bool is_gate(const std::string& text) {
  const auto names = gate_names();
  return std::find(names.begin(), names.end(), text) != names.end();
}

bool is_device(const std::string& text) {
  return static_cast<bool>(parse_device(text));
}

template <int Low, int High>
bool is_whole(const std::string& text) {
  return is_number<int>(text, Low, High);
}

bool is_positive(const std::string& text) {
  return is_number<double>(text, 0, 1e6);
}

struct OptionRule {
  const char* verb;
  const char* name;
  bool (*accepts)(const std::string&);  // null: a flag
};

constexpr std::array rules{OptionRule{"gate", "--device", is_device},
                           OptionRule{"gate", "--seed", is_seed},
                           OptionRule{"gate", "--threads", is_whole<1, 1024>},
                           OptionRule{"gate", "--limit", is_positive},
                           OptionRule{"gate", "--only", is_gate},
                           OptionRule{"gate", "--until", is_gate},
                           OptionRule{"gate", "--accept-baseline", nullptr},
                           OptionRule{"compare", "--device", is_device},
                           OptionRule{"compare", "--base", is_commit},
                           OptionRule{"compare", "--candidate", is_commit},
                           OptionRule{"compare", "--workload", is_name},
                           OptionRule{"compare", "--phase", is_name},
                           OptionRule{"compare", "--min-gain", is_positive},
                           OptionRule{"compare", "--index", is_whole<1, 1000000>},
                           OptionRule{"compare", "--seed", is_seed},
                           OptionRule{"compare", "--max-pairs", is_whole<1, 1000>},
                           OptionRule{"compare", "--block-ms", is_positive},
                           OptionRule{"compare", "--limit", is_positive},
                           OptionRule{"compare", "--final", nullptr}};

Diagnostic refused(const std::string& what) {
  return {.message = "the record's recipe is not run: " + printable(what),
          .fix = "run what you trust by hand: cudadent gate or cudadent compare",
          .code = codes::reproduce_impossible};
}

// Records from before gate runs kept their recipe: a run ended with the last gate it has, and gates that nobody asked
// for say so.
std::vector<std::string> rebuilt(const Record& record, const GateRecord& run) {
  std::vector<std::string> recipe{"gate", "--device", record.device};
  if (run.seed) recipe.insert(recipe.end(), {"--seed", std::to_string(*run.seed)});
  if (run.threads) recipe.insert(recipe.end(), {"--threads", std::to_string(*run.threads)});
  const auto asked = [](const GateResult& gate) { return !gate.not_run || gate.summary != "not run: not asked for"; };
  const auto count = std::count_if(run.gates.begin(), run.gates.end(), asked);
  const auto first = std::find_if(run.gates.begin(), run.gates.end(), asked);
  if (count == 1 && run.gates.size() > 1) {
    recipe.insert(recipe.end(), {"--only", first->gate});
  } else if (!run.gates.empty() && run.gates.back().gate != PerformanceFacts::gate) {
    recipe.insert(recipe.end(), {"--until", run.gates.back().gate});
  }
  return recipe;
}

}  // namespace

bool is_commit(const std::string& text) {
  const auto hexadecimal = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == 40 && std::all_of(text.begin(), text.end(), hexadecimal);
}

Result<Done> check_recipe(const std::vector<std::string>& argv) {
  if (argv.empty()) return refused("it is empty");
  const std::string& verb = argv.front();
  const bool known = std::any_of(rules.begin(), rules.end(), [&](const OptionRule& rule) { return verb == rule.verb; });
  if (!known) return refused("'" + verb + "' is none of the verbs that make such a record (gate, compare)");
  for (std::size_t i = 1; i < argv.size(); ++i) {
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const OptionRule& one) { return verb == one.verb && argv[i] == one.name; });
    if (rule == rules.end()) return refused("'" + argv[i] + "' is no option of " + verb + " that a recipe has");
    if (rule->accepts == nullptr) continue;
    if (++i == argv.size()) return refused(std::string(rule->name) + " has no value");
    if (!rule->accepts(argv[i])) return refused("'" + argv[i] + "' is no value of " + rule->name);
  }
  return Done{};
}

Result<std::vector<std::string>> recipe_of(const Record& record) {
  std::vector<std::string> recipe;
  if (const auto* comparison = record.as<CompareRecord>(); comparison != nullptr && comparison->recipe) {
    recipe = comparison->recipe->argv;
  }
  if (const auto* run = record.as<GateRecord>()) recipe = run->recipe ? run->recipe->argv : rebuilt(record, *run);
  if (recipe.empty()) {
    return Diagnostic{.message = "record " + record.id + " (" + record.kind + ") has no recipe",
                      .fix = "gate runs and comparisons can be reproduced: cudadent journal --kind gate",
                      .code = codes::reproduce_impossible};
  }
  if (const auto checked = check_recipe(recipe); !checked) return checked.error();
  if (recipe.front() != record.kind) return refused("'" + recipe.front() + "' does not make a " + record.kind);
  return recipe;
}

}  // namespace flashmoe::workflow
