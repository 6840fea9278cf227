#include "rules.hpp"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "workflow/compare/outcome.hpp"
#include "workflow/compare/run_compare.hpp"
#include "workflow/statistics/comparison.hpp"

namespace flashmoe::arena {
namespace {

using workflow::PairOutcome;
using workflow::PairProblem;

const std::map<std::string, Kind> kinds{{"at_least", Kind::at_least},
                                        {"bootstrap", Kind::bootstrap},
                                        {"every_pair", Kind::every_pair},
                                        {"sequential", Kind::sequential}};
const std::map<std::string, Checks> checks_by_name{
    {"one_shape", Checks::one_shape}, {"shapes", Checks::shapes}, {"gates", Checks::gates}};

double mean_of(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

bool passes_checks(const Rule& rule, const Evidence& evidence) {
  if (rule.checks == Checks::one_shape) return evidence.one_shape;
  if (rule.checks == Checks::shapes) return evidence.shapes;
  return evidence.correct;
}

// mt19937_64 and this are the same everywhere; the distributions of the standard library are not.
std::size_t drawn(std::mt19937_64& random, std::size_t choices) {
  return static_cast<std::size_t>(random() % choices);
}

double mean_of_resampled(const std::vector<double>& x, std::mt19937_64& random) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[drawn(random, x.size())];
  return sum / static_cast<double>(x.size());
}

// The lower end of a percentile bootstrap of `statistic`, which draws its own sample.
template <class Statistic>
double lower_bound(const Rule& rule, std::uint64_t seed, const Statistic& statistic) {
  std::mt19937_64 random(seed);
  std::vector<double> values;
  for (int i = 0; i < rule.resamples; ++i) values.push_back(statistic(random));
  const auto at = static_cast<std::ptrdiff_t>(std::floor((1 - rule.confidence) * rule.resamples));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

bool keeps_by_plain_runs(const Rule& rule, const Evidence& evidence) {
  const auto& base = evidence.plain_base;
  const auto& candidate = evidence.plain_candidate;
  if (base.empty() || candidate.empty()) return false;
  const double ratio =
      rule.by_mean ? mean_of(base) / mean_of(candidate) : workflow::median_of(base) / workflow::median_of(candidate);
  if (rule.too_fast > 0 && ratio > rule.too_fast) return false;
  if (rule.kind == Kind::at_least) return rule.least_gain > 0 ? ratio >= 1 + rule.least_gain : ratio > 1;
  return lower_bound(rule, evidence.seed, [&](std::mt19937_64& random) {
           return mean_of_resampled(base, random) / mean_of_resampled(candidate, random);
         }) > 1;
}

Decided decide_by_pairs(const Rule& rule, const Evidence& evidence) {
  Decided decided{.compared = true};
  std::vector<double> x;
  for (int i = 0; i < rule.pairs; ++i) {
    const PairOutcome outcome = evidence.pair(i);
    if (outcome.problem != PairProblem::none) return decided;
    x.push_back(outcome.sample.log_ratio);
    ++decided.pairs;
  }
  const double least = std::log1p(rule.least_gain);
  const auto clears = [&](double value) { return rule.least_gain > 0 ? value >= least : value > 0; };
  if (rule.kind == Kind::bootstrap) {
    decided.keeps =
        lower_bound(rule, evidence.seed, [&](std::mt19937_64& random) { return mean_of_resampled(x, random); }) > 0;
  } else {
    decided.keeps = rule.kind == Kind::every_pair ? std::all_of(x.begin(), x.end(), clears) : clears(mean_of(x));
  }
  return decided;
}

Decided decide_as_cudadent(const Evidence& evidence, int comparison) {
  workflow::ComparisonPlan plan;
  plan.policy.alpha = workflow::spend_alpha(workflow::run_alpha, comparison);
  plan.policy.min_gain = workflow::Thresholds{}.least_gain.at("tuning");
  const workflow::Comparison result = workflow::compare_versions(evidence.equal_pair, evidence.pair, plan);
  return {.keeps = workflow::outcome_of(result) == workflow::Outcome::holds,
          .pairs = static_cast<int>(result.pairs.size()),
          .compared = !result.pairs.empty()};
}

}  // namespace

Result<std::vector<Rule>> read_rules(const std::string& file) {
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& error) {
    return Diagnostic{.message = std::string(error.description()),
                      .fix = "mend it: it is TOML",
                      .file = file,
                      .line = static_cast<int>(error.source().begin.line)};
  }
  std::vector<Rule> rules;
  const toml::array* rows = table["rule"].as_array();
  for (std::size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    const auto row = (*rows)[i].as_table() != nullptr ? *(*rows)[i].as_table() : toml::table{};
    Rule rule{.name = row["name"].value_or(std::string())};
    const auto kind = kinds.find(row["kind"].value_or(std::string()));
    const auto checks = checks_by_name.find(row["checks"].value_or(std::string()));
    const std::string sees = row["sees"].value_or(std::string());
    if (rule.name.empty() || kind == kinds.end() || checks == checks_by_name.end() ||
        (sees != "plain" && sees != "pairs")) {
      return Diagnostic{.message = fmt::format("rule '{}' lacks its name, kind, checks or sees", rule.name),
                        .fix = "the head of rules.toml says what there is",
                        .file = file};
    }
    rule.kind = kind->second;
    rule.checks = checks->second;
    rule.sees_pairs = sees == "pairs";
    rule.by_mean = row["statistic"].value_or(std::string()) == "mean";
    rule.least_gain = row["least_gain"].value_or(rule.least_gain);
    rule.confidence = row["confidence"].value_or(rule.confidence);
    rule.resamples = row["resamples"].value_or(rule.resamples);
    rule.pairs = row["pairs"].value_or(rule.pairs);
    rule.too_fast = row["too_fast"].value_or(rule.too_fast);
    rule.what_if = row["what_if"].value_or(false);
    rules.push_back(std::move(rule));
  }
  if (rules.empty()) return Diagnostic{.message = "there is no rule", .fix = "[[rule]]", .file = file};
  return rules;
}

Decided decide(const Rule& rule, const Evidence& evidence, int comparison) {
  if (!passes_checks(rule, evidence)) return {};
  if (rule.kind == Kind::sequential) return decide_as_cudadent(evidence, comparison);
  if (rule.sees_pairs) return decide_by_pairs(rule, evidence);
  return {.keeps = keeps_by_plain_runs(rule, evidence), .compared = true};
}

}  // namespace flashmoe::arena
