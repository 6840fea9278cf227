#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string_view>

#include "workflow/gates/correctness.hpp"
#include "workflow/gpu/budget.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {
namespace {

// Random shapes find mistakes at their edges, not by their size.
constexpr double max_random_bytes = 32.0 * (1 << 20);
constexpr std::string_view random_prefix = "random ";
constexpr int max_random_hard = 2;  // random shapes that also get hard values
constexpr int lone_nan_calls = 4;   // who reads a quarter of its input is found by 99.6 of 100
// Orders matter between CTAs and warps, of which thousands of elements have enough.
constexpr double max_scheduled = 1 << 15;
constexpr std::size_t most_scheduled = 3;

double random_value(const ParamSpec& spec, std::mt19937_64& generator) {
  if (!spec.choices.empty()) return spec.choices[generator() % spec.choices.size()];
  if (!(spec.max > spec.min)) return spec.default_value;
  // Even odds for small and large sizes: uniform in the logarithm.
  const double low = std::log(spec.min + 1);
  const double high = std::log(spec.max + 2);
  const double draw = std::uniform_real_distribution<double>(low, high)(generator);
  return std::min(spec.max, std::max(spec.min, std::floor(std::exp(draw)) - 1));
}

std::string text_of(const Values& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format("{}{}={:g}", text.empty() ? "" : " ", name, value);
  return text;
}

bool is_small_enough(const Project& project, const Values& values) {
  const auto layout = layout_of(project, values);
  return layout && static_cast<double>(layout->input_bytes + layout->output_bytes) <= max_random_bytes;
}

void add_random(const Project& project, std::uint64_t seed, std::vector<CorrectnessCase>& cases) {
  std::mt19937_64 generator(mix_seed(seed, 77));
  std::set<Values> seen;
  for (const Workload& workload : project.workloads) seen.insert(workload.values);
  int added = 0;
  for (int attempt = 0; attempt < 20 * project.random_workloads && added < project.random_workloads; ++attempt) {
    Values values;
    for (const ParamSpec& spec : project.params) values[spec.name] = random_value(spec, generator);
    if (!is_small_enough(project, values) || !seen.insert(values).second) continue;
    cases.push_back({fmt::format("{}{}", random_prefix, text_of(values)), values});
    ++added;
  }
}

// The smallest workload with one size at an end of its range: nothing, one, as many as there may be. Random shapes
// seldom are.
void add_ends(const Project& project, std::vector<CorrectnessCase>& cases) {
  std::set<Values> seen;
  for (const CorrectnessCase& one : cases) seen.insert(one.values);
  for (const ParamSpec& spec : project.params) {
    if (!spec.choices.empty() || !(spec.max > spec.min)) continue;
    for (const double end : {spec.min, spec.max}) {
      Values values = project.workloads.front().values;
      values[spec.name] = end;
      if (!is_small_enough(project, values) || !seen.insert(values).second) continue;
      cases.push_back({fmt::format("{} {}={:g}", end == 0 ? "empty" : "end", spec.name, end), values});
    }
  }
}

// At the smallest workload, where a mistake is easiest to find; at the target, which is what will be timed; and at
// shapes that no kernel was written for. There values are large, not huge: of many rows with scores around 1e8 one has
// two that only their rounding tells apart, and a kernel would be wrong by luck. An exp() without its maximum overflows
// at 100.
void add_hard(const Project& project, std::vector<CorrectnessCase>& cases) {
  std::vector<CorrectnessCase> places;
  const auto add_place = [&](const std::string& name, const Values& values) {
    const bool known = std::any_of(places.begin(), places.end(), [&](const auto& p) { return p.values == values; });
    if (!known) places.push_back({name, values});
  };
  add_place(project.workloads.front().name, project.workloads.front().values);
  if (const Workload* target = target_workload(project)) add_place(target->name, target->values);
  int random_places = 0;
  for (const CorrectnessCase& one : cases) {
    if (!one.name.starts_with(random_prefix) || random_places == max_random_hard) continue;
    add_place(one.name, one.values);
    ++random_places;
  }
  for (const CorrectnessCase& place : places) {
    for (const std::string& hard : project.hard_values) {
      if (!is_hard_value(hard)) continue;
      const std::string here = hard == "huge" && &place != &places.front() ? "large" : hard;
      cases.push_back({fmt::format("{} with {} values", place.name, here), place.values, here});
    }
  }
  const Workload* target = target_workload(project);
  const bool has_nan =
      std::find(project.hard_values.begin(), project.hard_values.end(), "nan") != project.hard_values.end();
  if (target && has_nan) {
    cases.push_back({target->name + " with a lone nan value", target->values, lone_nan, lone_nan_calls});
  }
}

}  // namespace

std::vector<CorrectnessCase> smaller_cases(const Project& project, const std::vector<CorrectnessCase>& cases) {
  std::vector<std::pair<double, const CorrectnessCase*>> by_size;
  for (const CorrectnessCase& one : cases) {
    if (one.hard.empty()) by_size.emplace_back(size_of_case(project, one.values), &one);
  }
  std::stable_sort(by_size.begin(), by_size.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto end =
      std::find_if(by_size.begin(), by_size.end(), [](const auto& one) { return one.first > max_scheduled; });
  const auto small = static_cast<std::size_t>(end - by_size.begin());
  std::vector<CorrectnessCase> chosen;
  if (!by_size.empty()) chosen.push_back(*by_size.front().second);
  for (std::size_t i = small; i > 1 && chosen.size() < most_scheduled; --i) chosen.push_back(*by_size[i - 1].second);
  return chosen;
}

std::vector<CorrectnessCase> correctness_cases(const Project& project, std::uint64_t seed) {
  std::vector<CorrectnessCase> cases;
  for (const Workload& workload : project.workloads) cases.push_back({workload.name, workload.values, "", 2});
  if (project.workloads.empty()) return cases;
  add_random(project, seed, cases);
  add_ends(project, cases);
  add_hard(project, cases);
  return cases;
}

}  // namespace flashmoe::workflow
