#include "workflow/advise/patterns.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "support/json_text.hpp"
#include "support/sha256.hpp"
#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/advise/builtin.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::size_t most_text = 200;  // of a rule's or a move's name in a file that somebody else wrote

Json json_of(const std::vector<PatternTrial>& trials) {
  Json list = Json::array();
  for (const PatternTrial& one : trials) {
    list.push_back({{"id", one.id},
                    {"evidence", one.evidence},
                    {"rule", one.rule},
                    {"move", one.move},
                    {"kept", one.kept},
                    {"lasted", one.lasted},
                    {"gain", one.gain}});
  }
  return list;
}

// The tunable of "splits 1 -> 4".
std::string tunable_of(const std::string& move) {
  return move.substr(0, move.find(' '));
}

double gain_of(const IterationRecord& iteration, const CompareRecord* comparison) {
  if (iteration.gain && iteration.gain->mean) return 1 + *iteration.gain->mean;
  if (comparison != nullptr && comparison->predicted) return 1 + comparison->predicted->gain();
  return 1;
}

using Loop = std::pair<std::string, std::string>;  // run, device

}  // namespace

std::string move_in(const std::string& hypothesis) {
  std::string move = hypothesis.substr(0, hypothesis.find(": "));
  move = move.substr(0, move.find(" (it needs "));
  const std::size_t arrow = move.find(" -> ");
  const bool is_one = arrow != std::string::npos && std::count(move.begin(), move.end(), ' ') == 3;
  return is_one ? move : "";
}

std::vector<PatternTrial> trials_in(const std::vector<Record>& records) {
  std::map<std::string, const CompareRecord*> comparisons;
  std::map<std::pair<Loop, std::string>, std::size_t> standing;  // of a loop's tunable: the trial that set it last
  std::vector<PatternTrial> trials;
  for (const Record& record : records) {
    if (!is_usable(record)) continue;
    if (const auto* comparison = record.as<CompareRecord>()) comparisons[record.id] = comparison;
    const auto* iteration = record.as<IterationRecord>();
    if (iteration == nullptr || iteration->comparison.empty()) continue;
    const std::string move = move_in(iteration->hypothesis);
    if (move.empty()) continue;
    const auto compared = comparisons.find(iteration->comparison);
    PatternTrial trial{.id = record.id,
                       .evidence = record.evidence ? record.evidence->kind : "",
                       .rule = iteration->rule,
                       .move = move,
                       .kept = iteration->decision == "advance"};
    if (trial.kept) {
      trial.gain = gain_of(*iteration, compared == comparisons.end() ? nullptr : compared->second);
      trial.lasted = true;
      const auto [before, is_new] =
          standing.emplace(std::pair{Loop{record.run, record.device}, tunable_of(move)}, trials.size());
      if (!is_new) {
        trials[before->second].lasted = false;
        before->second = trials.size();
      }
    }
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::vector<PatternCount> counts_of(const std::vector<PatternTrial>& trials) {
  std::map<std::tuple<std::string, std::string, std::string>, PatternCount> all;
  std::map<const PatternCount*, double> log_gains;  // a product of a fleet's gains has no room in a double
  for (const PatternTrial& one : trials) {
    for (const std::string& move : std::set<std::string>{"", one.move}) {
      PatternCount& count = all[{one.evidence, one.rule, move}];
      count.evidence = one.evidence;
      count.rule = one.rule;
      count.move = move;
      ++count.trials;
      count.kept += one.kept ? 1 : 0;
      count.lasted += one.lasted ? 1 : 0;
      if (one.kept) log_gains[&count] += std::log(std::max(one.gain, 1e-6));
    }
  }
  std::vector<PatternCount> counts;
  for (auto& [key, count] : all) {
    if (count.kept > 0) count.mean_gain = std::exp(log_gains[&count] / count.kept);
    count.hits = exact_rate(count.kept, count.trials);
    counts.push_back(std::move(count));
  }
  // The map has each rule before its moves; the most tried rule first.
  const auto trials_of_rule = [&](const PatternCount& one) {
    return all.at({one.evidence, one.rule, std::string()}).trials;
  };
  std::stable_sort(counts.begin(), counts.end(), [&](const PatternCount& a, const PatternCount& b) {
    if (a.evidence != b.evidence) return a.evidence < b.evidence;
    if (a.rule != b.rule) {
      const int of_a = trials_of_rule(a), of_b = trials_of_rule(b);
      return of_a != of_b ? of_a > of_b : a.rule < b.rule;
    }
    if (a.move.empty() != b.move.empty()) return a.move.empty();
    return a.trials > b.trials;
  });
  return counts;
}

std::string patterns_text(const std::vector<PatternTrial>& trials) {
  const Json list = json_of(trials);
  return indented({{"schema_version", 1}, {"sha256", sha256_hex(one_line(list))}, {"trials", list}});
}

Result<std::vector<PatternTrial>> read_patterns(const std::string& text, const std::string& file) {
  const auto wrong = [&](const std::string& why) {
    return Diagnostic{.message = fmt::format("{} is no file of patterns: {}", file, why),
                      .fix = "cudadent patterns --export FILE writes one",
                      .code = codes::patterns_unreadable};
  };
  const Json json = bounded_json(text);
  if (!json.is_object() || !json.contains("trials") || !json["trials"].is_array()) return wrong("it has no trials");
  std::vector<PatternTrial> trials;
  try {
    if (json.at("schema_version").get<int>() != 1) return wrong("it is of another version");
    for (const Json& one : json["trials"]) {
      trials.push_back({.id = one.at("id").get<std::string>(),
                        .evidence = one.at("evidence").get<std::string>(),
                        .rule = one.at("rule").get<std::string>(),
                        .move = one.at("move").get<std::string>(),
                        .kept = one.at("kept").get<bool>(),
                        .lasted = one.at("lasted").get<bool>(),
                        .gain = one.at("gain").get<double>()});
      const PatternTrial& read = trials.back();
      const std::size_t longest = std::max({read.id.size(), read.evidence.size(), read.rule.size(), read.move.size()});
      const bool is_one = std::isfinite(read.gain) && read.gain > 0 && (read.kept || !read.lasted);
      if (longest > most_text || !is_one) return wrong("a trial is none");
    }
    if (json.at("sha256").get<std::string>() != sha256_hex(one_line(json_of(trials))))
      return wrong("its content is not what its hash says");
  } catch (const Json::exception&) {
    return wrong("a field is missing or of another type");
  }
  return trials;
}

Result<std::vector<PatternTrial>> merged(const std::vector<PatternTrial>& a, const std::vector<PatternTrial>& b) {
  std::vector<PatternTrial> all = a;
  std::map<std::string, const PatternTrial*> known;
  for (const PatternTrial& one : a) known[one.id] = &one;
  std::string conflicts;
  for (const PatternTrial& one : b) {
    const auto found = known.find(one.id);
    if (found == known.end()) {
      all.push_back(one);
    } else if (*found->second != one) {
      conflicts += (conflicts.empty() ? "" : ", ") + printable(one.id);
    }
  }
  if (conflicts.empty()) return all;
  return Diagnostic{.message = "these trials are not the same in both: " + conflicts.substr(0, 1000),
                    .fix = "a loop went on after the one file was made: learn it again there, or remove the older file",
                    .code = codes::patterns_conflict};
}

std::string patterns_file(const Project& project) {
  return project.directory + "/.cudadent/patterns.json";
}

Result<std::vector<PatternTrial>> patterns_of(const Project& project) {
  const auto text = whole_file(patterns_file(project));
  if (!text) return std::vector<PatternTrial>{};
  return read_patterns(*text, patterns_file(project));
}

PatternPrior::PatternPrior(const std::vector<PatternTrial>& trials, const std::string& evidence) {
  for (PatternCount& count : counts_of(trials))
    if (count.evidence == evidence) counts_.push_back(std::move(count));
}

const PatternCount* PatternPrior::find(const std::string& rule, const std::string& move) const {
  const auto found = std::find_if(counts_.begin(), counts_.end(),
                                  [&](const PatternCount& count) { return count.rule == rule && count.move == move; });
  return found == counts_.end() ? nullptr : &*found;
}

double PatternPrior::chance(const std::string& rule) const {
  const PatternCount* count = find(rule, "");
  return count == nullptr ? 0.5 : (count->kept + 1.0) / (count->trials + 2.0);
}

double PatternPrior::chance(const std::string& rule, const std::string& move) const {
  int trials = 0, lasted = 0;  // under whatever rule: a value that lasts does so whoever asked for it
  for (const PatternCount& count : counts_) {
    if (move.empty() || count.move != move) continue;
    trials += count.trials;
    lasted += count.lasted;
  }
  return (lasted + 2 * chance(rule)) / (trials + 2.0);
}

void rank_by_patterns(std::vector<Advice>& advice, const PatternPrior& prior) {
  if (prior.knows_nothing()) return;
  const auto worth = [&](const Advice& one) { return (one.gain - 1) * prior.chance(one.rule); };
  std::stable_sort(advice.begin(), advice.end(), [&](const Advice& a, const Advice& b) { return worth(a) > worth(b); });
}

std::vector<Practice> practices() {
  const toml::table root = toml::parse(builtin_patterns_text());  // our own: a test reads it
  std::vector<Practice> all;
  for (const toml::node& node : *root["pattern"].as_array()) {
    const toml::table& one = *node.as_table();
    all.push_back({.name = one["name"].value_or(std::string()),
                   .says = one["says"].value_or(std::string()),
                   .moves = one["moves"].value_or(std::string()),
                   .rule = one["rule"].value_or(std::string())});
  }
  return all;
}

}  // namespace flashmoe::workflow
