#include "workflow/advise/advise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <set>

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

constexpr LineCount executed{"instructions", [](const ReportedLine& line) { return line.instructions; }};
constexpr std::size_t most_lines = 3;

// The source lines with most of a count, the largest first; `all` is the sum over every line.
std::vector<CountedLine> worst_lines(const LaunchReport& launch, const LineCount& count) {
  double all = 0;
  std::vector<CountedLine> found;
  for (const ReportedLine& line : launch.source_lines) {
    const double own = count.of(line);
    all += own;
    if (line.line > 0 && own > 0)
      found.push_back({.file = line.file, .line = line.line, .count = count.name, .own = own});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CountedLine& a, const CountedLine& b) { return a.own > b.own; });
  if (found.size() > most_lines) found.resize(most_lines);
  for (CountedLine& line : found) line.all = all;
  return found;
}

// What a rule points at; nullptr: no count of lines.
const LineCount* line_count_of(const Rule& rule) {
  const auto found =
      std::find_if(line_counts.begin(), line_counts.end(), [&](const LineCount& one) { return rule.line == one.name; });
  return found == line_counts.end() ? nullptr : &*found;
}

// The name alone: a profile has few files, and its text is read beside the source.
std::string place_of(const CountedLine& line) {
  return fmt::format("{}:{}", std::filesystem::path(line.file).filename().string(), line.line);
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

using Names = std::set<std::string>;

// Names in an expression that are unknown.
std::vector<std::string> unknown_in(const std::string& expression, const Names& unknown) {
  std::vector<std::string> found;
  std::string word;
  for (std::size_t i = 0; i <= expression.size(); ++i) {
    const char c = i < expression.size() ? expression[i] : ' ';
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    if (unknown.contains(word) && std::find(found.begin(), found.end(), word) == found.end()) found.push_back(word);
    word.clear();
  }
  return found;
}

struct Known {
  Values values{};
  Names unknown{};  // counters that nobody counted, and what would be computed from them
};

// The counters, and what the rules compute from them. `all`: names of counters there can be.
Result<Known> known_of(Values counters, const RuleSet& rules, const Names& all) {
  Known known{.values = std::move(counters)};
  for (const std::string& name : all)
    if (!known.values.contains(name)) known.unknown.insert(name);
  for (const auto& [name, expression] : rules.values) {
    if (!unknown_in(expression, known.unknown).empty()) {
      known.unknown.insert(name);
      continue;
    }
    const auto value = evaluate(expression, known.values);
    if (!value) return value.error();
    known.values[name] = *value;
  }
  return known;
}

// Of a rule's expressions; what it says has names in braces.
std::vector<std::string> unknown_in(const Rule& rule, const Names& unknown) {
  std::string all = rule.when + " " + rule.counter + " " + rule.to + " " + rule.gain;
  for (std::size_t i = rule.says.find('{'); i != std::string::npos; i = rule.says.find('{', i + 1))
    all += " " + rule.says.substr(i + 1, rule.says.find('}', i) - i - 1);
  return unknown_in(all, unknown);
}

Names counters_of_launches() {
  Names names;
  for (const CounterName& counter : counter_names()) names.insert(counter.name);
  return names;
}

// `share`: of the time, in what these counters are of.
Result<Advice> advice_of(const Rule& rule, const Values& values, double share, const LaunchReport* launch) {
  const auto to = evaluate(rule.to, values);
  if (!to) return to.error();
  const auto gain = evaluate(rule.gain, values);
  if (!gain) return gain.error();
  // Only this launch gets faster: the others keep their share of the time.
  const double own_gain = std::max(1.0, *gain);
  const LineCount* count = line_count_of(rule);
  std::vector<CountedLine> lines;
  if (launch != nullptr) lines = worst_lines(*launch, count != nullptr ? *count : executed);
  return Advice{.rule = rule.name,
                .bottleneck = rule.bottleneck,
                .says = rule.bottleneck + ": " + filled(rule.says, values),
                .where = count != nullptr && !lines.empty() ? place_of(lines.front()) : "",
                .lines = std::move(lines),
                .fix = rule.change,
                .phase = rule.phase,
                .expected = {.name = rule.counter, .from = values.at(rule.counter), .to = *to},
                .stays_when_fake = rule.stays_when_fake,
                .gain = 1 / (1 - share + share / own_gain)};
}

bool is_worth_more(const Advice& a, const Advice& b) {
  return a.gain > b.gain;
}

Result<std::vector<Advice>> advice_on(const Known& known, const RuleSet& rules, double share,
                                      const LaunchReport* launch, std::vector<UnaskedRule>* unasked) {
  std::vector<Advice> all;
  for (const Rule& rule : rules.rules) {
    if (auto missing = unknown_in(rule, known.unknown); !missing.empty()) {
      if (unasked != nullptr) unasked->push_back({.rule = rule.name, .missing = std::move(missing)});
      continue;
    }
    const auto holds = evaluate(rule.when, known.values);
    if (!holds) return holds.error();
    if (*holds == 0) continue;
    auto advice = advice_of(rule, known.values, share, launch);
    if (!advice) return advice.error();
    all.push_back(std::move(*advice));
  }
  std::stable_sort(all.begin(), all.end(), is_worth_more);
  return all;
}

}  // namespace

Result<std::vector<Advice>> advise(const Values& counters, const RuleSet& rules) {
  const auto known = known_of(counters, rules, {});
  if (!known) return known.error();
  return advice_on(*known, rules, 1, nullptr, nullptr);
}

Result<Done> advise(ProfileRun& run, const RuleSet& rules) {
  for (LaunchProfile& launch : run.launches) {
    const auto known = known_of(counters_of(launch.report), rules, counters_of_launches());
    if (!known) return known.error();
    launch.unasked.clear();
    auto advice = advice_on(*known, rules, launch.share, &launch.report, &launch.unasked);
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
    const auto known = known_of(counters_of(launch.report), rules, counters_of_launches());
    if (!known) return known.error();
    const auto busiest = known->values.find("busiest");
    if (busiest == known->values.end())
      return Diagnostic{.message = fmt::format("the cycles of {} cannot be estimated: nobody counted what it executes",
                                               launch.report.name),
                        .fix = "profile it on a virtual GPU"};
    cycles += busiest->second;
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
