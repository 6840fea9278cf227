// Keep rules as data (rules.toml), and what they decide about one candidate. Ours is compare_versions() itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/statistics/pair.hpp"

namespace flashmoe::arena {

enum class Kind { at_least, bootstrap, every_pair, sequential };
enum class Checks { one_shape, shapes, gates };

struct Rule {
  std::string name{};
  Kind kind = Kind::at_least;
  Checks checks = Checks::one_shape;
  bool sees_pairs = false;   // else plain runs
  bool by_mean = false;      // at_least: of means, else of medians
  double least_gain = 0;     // ratio - 1
  double confidence = 0.95;  // bootstrap, one-sided
  int resamples = 2000;
  int pairs = 1;
  double too_fast = 0;   // refuse what is so many times as fast; 0: nothing is
  bool what_if = false;  // a rival's way to decide behind our checks: no rule that somebody uses
};

[[nodiscard]] Result<std::vector<Rule>> read_rules(const std::string& file);

// All that can be known of one candidate in one run. A rule takes what it looks at.
struct Evidence {
  bool one_shape = false, shapes = false;
  bool correct = false;                                 // cudadent's correctness gate
  std::vector<double> plain_base{}, plain_candidate{};  // seconds a call
  workflow::PairSource pair{}, equal_pair{};
  std::uint64_t seed = 0;  // for what a rule draws
};

struct Decided {
  bool keeps = false;
  int pairs = 0;          // that it asked for
  bool compared = false;  // it looked at times: this spends a share of a run's alpha
};

// `comparison` is k of the run, from 1.
[[nodiscard]] Decided decide(const Rule& rule, const Evidence& evidence, int comparison);

}  // namespace flashmoe::arena
