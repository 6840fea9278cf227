#include <fmt/format.h>

#include <cmath>
#include <random>
#include <set>

#include "workflow/gates/correctness.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/runner/layout.hpp"

namespace flashmoe::workflow {
namespace {

// Random shapes find mistakes at their edges, not by their size.
constexpr double max_random_bytes = 32.0 * (1 << 20);

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
    cases.push_back({fmt::format("random {}", text_of(values)), values});
    ++added;
  }
}

// Empty: the smallest workload with one size 0, where its domain has a 0.
void add_empty(const Project& project, std::vector<CorrectnessCase>& cases) {
  for (const ParamSpec& spec : project.params) {
    if (!spec.choices.empty() || spec.min != 0 || spec.max == spec.min) continue;
    Values values = project.workloads.front().values;
    values[spec.name] = 0;
    cases.push_back({fmt::format("empty {}=0", spec.name), values});
  }
}

}  // namespace

std::vector<CorrectnessCase> correctness_cases(const Project& project, std::uint64_t seed) {
  std::vector<CorrectnessCase> cases;
  for (const Workload& workload : project.workloads) cases.push_back({workload.name, workload.values, "", 2});
  if (project.workloads.empty()) return cases;
  add_random(project, seed, cases);
  add_empty(project, cases);
  for (const std::string& hard : project.hard_values) {
    if (!is_hard_value(hard)) continue;
    const Workload& tiny = project.workloads.front();
    cases.push_back({fmt::format("{} with {} values", tiny.name, hard), tiny.values, hard});
  }
  return cases;
}

}  // namespace flashmoe::workflow
