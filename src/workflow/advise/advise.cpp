#include "workflow/advise/advise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "workflow/advise/counters.hpp"

namespace flashmoe::workflow {
namespace {

// Counts of a source line that can point at it.
struct LineCount {
  const char* name;
  double (*of)(const ReportedLine& line);
};
constexpr std::array line_counts{
    LineCount{"shared_bank_conflicts", [](const ReportedLine& line) { return line.shared_bank_conflicts; }},
    LineCount{"global_sectors", [](const ReportedLine& line) { return line.global_sectors; }},
    LineCount{"global_sectors_wasted",
              [](const ReportedLine& line) { return line.global_sectors - line.global_sectors_ideal; }}};

// The source line with the largest count, as "file:line".
std::string worst_line(const LaunchReport& launch, const std::string& count) {
  const auto found =
      std::find_if(line_counts.begin(), line_counts.end(), [&](const LineCount& one) { return count == one.name; });
  if (found == line_counts.end()) return {};
  double most = 0;
  std::string place;
  for (const ReportedLine& line : launch.source_lines) {
    if (line.line == 0 || found->of(line) <= most) continue;
    most = found->of(line);
    // The name alone: a profile has few files, and its text is read beside the source.
    place = fmt::format("{}:{}", std::filesystem::path(line.file).filename().string(), line.line);
  }
  return place;
}

std::string number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.3g}", value);
}

// "{waves} waves" -> "0.034 waves"; a name that is no value stays as it is.
std::string filled(const std::string& text, const Values& values) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    const auto found = end == std::string::npos ? values.end() : values.find(text.substr(i + 1, end - i - 1));
    if (found == values.end()) {
      out += text[i++];
      continue;
    }
    out += number(found->second);
    i = end + 1;
  }
  return out;
}

// The counters, and what the rules compute from them.
Result<Values> values_of(Values values, const RuleSet& rules) {
  for (const auto& [name, expression] : rules.values) {
    const auto value = evaluate(expression, values);
    if (!value) return value.error();
    values[name] = *value;
  }
  return values;
}

// `share`: of the time, in what these counters are of.
Result<Advice> advice_of(const Rule& rule, const Values& values, double share, const LaunchReport* launch) {
  const auto to = evaluate(rule.to, values);
  if (!to) return to.error();
  const auto gain = evaluate(rule.gain, values);
  if (!gain) return gain.error();
  // Only this launch gets faster: the others keep their share of the time.
  const double own_gain = std::max(1.0, *gain);
  return Advice{.rule = rule.name,
                .bottleneck = rule.bottleneck,
                .says = rule.bottleneck + ": " + filled(rule.says, values),
                .where = launch != nullptr ? worst_line(*launch, rule.line) : "",
                .fix = rule.change,
                .phase = rule.phase,
                .expected = {.name = rule.counter, .from = values.at(rule.counter), .to = *to},
                .stays_when_fake = rule.stays_when_fake,
                .gain = 1 / (1 - share + share / own_gain)};
}

bool is_worth_more(const Advice& a, const Advice& b) {
  return a.gain > b.gain;
}

Result<std::vector<Advice>> advice_on(const Values& counters, const RuleSet& rules, double share,
                                      const LaunchReport* launch) {
  const auto values = values_of(counters, rules);
  if (!values) return values.error();
  std::vector<Advice> all;
  for (const Rule& rule : rules.rules) {
    const auto holds = evaluate(rule.when, *values);
    if (!holds) return holds.error();
    if (*holds == 0) continue;
    auto advice = advice_of(rule, *values, share, launch);
    if (!advice) return advice.error();
    all.push_back(std::move(*advice));
  }
  std::stable_sort(all.begin(), all.end(), is_worth_more);
  return all;
}

}  // namespace

Result<std::vector<Advice>> advise(const Values& counters, const RuleSet& rules) {
  return advice_on(counters, rules, 1, nullptr);
}

Result<Done> advise(ProfileRun& run, const RuleSet& rules) {
  for (LaunchProfile& launch : run.launches) {
    auto advice = advice_on(counters_of(launch.report), rules, launch.share, &launch.report);
    if (!advice) return advice.error();
    launch.advice = std::move(*advice);
  }
  return Done{};
}

std::vector<Advice> ranked(const ProfileRun& run) {
  std::vector<Advice> all;
  for (const LaunchProfile& launch : run.launches) all.insert(all.end(), launch.advice.begin(), launch.advice.end());
  std::stable_sort(all.begin(), all.end(), is_worth_more);
  return all;
}

Result<double> least_cycles(const ProfileRun& run, const RuleSet& rules) {
  double cycles = 0;
  for (const LaunchProfile& launch : run.launches) {
    const auto values = values_of(counters_of(launch.report), rules);
    if (!values) return values.error();
    cycles += values->at("busiest");
  }
  return cycles;
}

std::string advice_text(const std::vector<Advice>& advice, const std::string& estimate) {
  if (advice.empty()) return "No rule finds a bottleneck in these counters.\n";
  const Advice& first = advice.front();
  std::string text = fmt::format("Primary bottleneck ({}): {}{}\n", first.rule, first.says,
                                 first.where.empty() ? "" : ", most at " + first.where);
  text += fmt::format("  change    {}\n", first.fix);
  text += fmt::format("  expect    {} from {} to {}; up to {:.1f}x ({})\n", first.expected.name,
                      number(first.expected.from), number(first.expected.to), first.gain, estimate);
  if (advice.size() > 1) text += "Then:\n";
  for (std::size_t i = 1; i < advice.size(); ++i) {
    text += fmt::format("  {:<18} {}{}\n", advice[i].rule, advice[i].says,
                        advice[i].where.empty() ? "" : ", most at " + advice[i].where);
  }
  return text;
}

}  // namespace flashmoe::workflow
