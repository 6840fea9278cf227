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

// The counters of a launch, and what the rules compute from them.
Result<Values> values_of(const LaunchReport& launch, const RuleSet& rules) {
  Values values = counters_of(launch);
  for (const auto& [name, expression] : rules.values) {
    const auto value = evaluate(expression, values);
    if (!value) return value.error();
    values[name] = *value;
  }
  return values;
}

Result<Advice> advice_of(const Rule& rule, const LaunchProfile& launch, const Values& values) {
  const auto to = evaluate(rule.to, values);
  if (!to) return to.error();
  const auto gain = evaluate(rule.gain, values);
  if (!gain) return gain.error();
  // Only this launch gets faster: the others keep their share of the time.
  const double launch_gain = std::max(1.0, *gain);
  return Advice{.rule = rule.name,
                .bottleneck = rule.bottleneck,
                .says = rule.bottleneck + ": " + filled(rule.says, values),
                .where = worst_line(launch.report, rule.line),
                .fix = rule.change,
                .phase = rule.phase,
                .expected = {.name = rule.counter, .from = values.at(rule.counter), .to = *to},
                .stays_when_fake = rule.stays_when_fake,
                .gain = 1 / (1 - launch.share + launch.share / launch_gain)};
}

bool is_worth_more(const Advice& a, const Advice& b) {
  return a.gain > b.gain;
}

}  // namespace

Result<Done> advise(ProfileRun& run, const RuleSet& rules) {
  for (LaunchProfile& launch : run.launches) {
    const auto values = values_of(launch.report, rules);
    if (!values) return values.error();
    launch.advice.clear();
    for (const Rule& rule : rules.rules) {
      const auto holds = evaluate(rule.when, *values);
      if (!holds) return holds.error();
      if (*holds == 0) continue;
      auto advice = advice_of(rule, launch, *values);
      if (!advice) return advice.error();
      launch.advice.push_back(std::move(*advice));
    }
    std::stable_sort(launch.advice.begin(), launch.advice.end(), is_worth_more);
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
    const auto values = values_of(launch.report, rules);
    if (!values) return values.error();
    cycles += values->at("busiest");
  }
  return cycles;
}

std::string advice_text(const std::vector<Advice>& advice) {
  if (advice.empty()) return "No rule finds a bottleneck in these counters.\n";
  const Advice& first = advice.front();
  std::string text = fmt::format("Primary bottleneck ({}): {}{}\n", first.rule, first.says,
                                 first.where.empty() ? "" : ", most at " + first.where);
  text += fmt::format("  change    {}\n", first.fix);
  text += fmt::format("  expect    {} from {} to {}; up to {:.1f}x (an estimate from counts, no time)\n",
                      first.expected.name, number(first.expected.from), number(first.expected.to), first.gain);
  if (advice.size() > 1) text += "Then:\n";
  for (std::size_t i = 1; i < advice.size(); ++i) {
    text += fmt::format("  {:<18} {}{}\n", advice[i].rule, advice[i].says,
                        advice[i].where.empty() ? "" : ", most at " + advice[i].where);
  }
  return text;
}

}  // namespace flashmoe::workflow
