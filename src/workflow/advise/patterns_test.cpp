#include "workflow/advise/patterns.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "workflow/advise/rules.hpp"
#include "workflow/gpu/profile.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// A loop's change, with the comparison that its gain stands in.
void add(std::vector<Record>& records, const std::string& rule, const std::string& hypothesis, bool kept,
         double factor = 2, const std::string& run = "r") {
  const std::string number = std::to_string(records.size());
  Record compared;
  compared.id = "compare-" + number;
  compared.run = run;
  compared.body = CompareRecord{.predicted = PredictedGain{.base_cycles = factor, .candidate_cycles = 1}};
  records.push_back(compared);
  Record record;
  record.id = "trial-" + number;
  record.run = run;
  record.evidence = Evidence{.kind = predicted_evidence, .where = "l4"};
  record.body = IterationRecord{
      .hypothesis = hypothesis, .rule = rule, .comparison = compared.id, .decision = kept ? "advance" : "leave"};
  records.push_back(record);
}

TEST(Patterns, AMoveIsOneTunable) {
  EXPECT_EQ(move_in("splits 1 -> 4: the grid is too small"), "splits 1 -> 4");
  EXPECT_EQ(move_in("mma false -> true (it needs warps 2 -> 4): products"), "mma false -> true");
  EXPECT_EQ(move_in("wider loads"), "");
  EXPECT_EQ(move_in("from 2 loads -> 4 loads: x"), "");
}

TEST(Patterns, CountsWhatWasKeptAndWhatLasted) {
  std::vector<Record> records;
  add(records, "grid", "splits 1 -> 2: x", true, 1.5);
  add(records, "grid", "splits 2 -> 8: x", true, 6);
  add(records, "grid", "rows 64 -> 128: x", false);
  add(records, "grid", "splits 1 -> 2: x", true, 1.5, "another loop");
  const std::vector<PatternTrial> trials = trials_in(records);
  ASSERT_EQ(trials.size(), 4U);
  EXPECT_FALSE(trials[0].lasted) << "8 came in its place";
  EXPECT_TRUE(trials[1].lasted);
  EXPECT_FALSE(trials[2].kept);
  EXPECT_TRUE(trials[3].lasted) << "of a loop of its own";
  const std::vector<PatternCount> counts = counts_of(trials);
  ASSERT_EQ(counts.size(), 4U);
  EXPECT_EQ(counts[0].move, "");
  EXPECT_EQ(counts[0].trials, 4);
  EXPECT_EQ(counts[0].kept, 3);
  EXPECT_NEAR(counts[0].mean_gain, std::cbrt(1.5 * 6 * 1.5), 1e-9);
  EXPECT_LT(counts[0].hits.lower, 0.25) << "four trials say little";
  EXPECT_GT(counts[0].hits.upper, 0.95);
  EXPECT_EQ(counts[1].move, "splits 1 -> 2") << "the most tried first";
}

TEST(Patterns, WhatPersonsAndRefusalsLeaveIsNone) {
  std::vector<Record> records;
  add(records, "", "a clever trick", true);
  Record refused;
  refused.body = IterationRecord{.hypothesis = "splits 1 -> 2: x", .decision = "leave"};
  records.push_back(refused);
  Record forged = records[1];
  std::get<IterationRecord>(forged.body).hypothesis = "splits 1 -> 2: x";
  forged.standing = Standing::changed;
  records.push_back(forged);
  EXPECT_TRUE(trials_in(records).empty());
}

TEST(Patterns, AFileIsReadAsItWasWritten) {
  std::vector<Record> records;
  add(records, "grid", "splits 1 -> 2: x", true, 1.5);
  add(records, "", "rows 64 -> 32: a neighbour", false);
  const std::vector<PatternTrial> trials = trials_in(records);
  const std::string text = patterns_text(trials);
  const auto read = read_patterns(text, "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, trials);
  std::string changed = text;
  changed.replace(changed.find("1 -> 2"), 6, "1 -> 4");
  for (const std::string& wrong : {changed, std::string("{}"), std::string("[["), text.substr(0, text.size() / 2)}) {
    const auto refused = read_patterns(wrong, "f");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, codes::patterns_unreadable);
  }
}

// A trial without a move is counted once; a fleet's gains have a mean; what was not kept did not last.
TEST(Patterns, AnybodysFileIsCountedAsWell) {
  std::vector<PatternTrial> trials;
  for (int i = 0; i < 500; ++i)
    trials.push_back({.id = std::to_string(i), .rule = "grid", .kept = true, .lasted = true, .gain = 10});
  const auto read = read_patterns(patterns_text(trials), "f");
  ASSERT_TRUE(read);
  const std::vector<PatternCount> counts = counts_of(*read);
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0].trials, 500);
  EXPECT_NEAR(counts[0].mean_gain, 10, 1e-9);
  trials[0].kept = false;
  EXPECT_FALSE(read_patterns(patterns_text(trials), "f"));
}

TEST(Patterns, ATrialCountsOnceAndAConflictIsNamed) {
  const PatternTrial one{.id = "a1", .move = "x 1 -> 2", .kept = true, .lasted = true};
  const PatternTrial two{.id = "b2", .move = "y 1 -> 2"};
  const auto both = merged({one}, {one, two});
  ASSERT_TRUE(both);
  EXPECT_EQ(*both, (std::vector{one, two}));
  PatternTrial other = one;
  other.lasted = false;
  const auto conflict = merged({one, two}, {other});
  ASSERT_FALSE(conflict);
  EXPECT_EQ(conflict.error().code, codes::patterns_conflict);
  EXPECT_NE(conflict.error().message.find("a1"), std::string::npos);
}

TEST(Patterns, TheChanceComesFromWhatWasSeen) {
  EXPECT_DOUBLE_EQ(PatternPrior().chance("grid"), 0.5);
  std::vector<PatternTrial> trials(
      8, {.evidence = "predicted", .rule = "grid", .move = "splits 1 -> 8", .kept = true, .lasted = true});
  trials.resize(16, {.evidence = "predicted", .rule = "waves", .move = "rows 64 -> 32"});
  const PatternPrior prior(trials, "predicted");
  EXPECT_DOUBLE_EQ(prior.chance("grid"), 0.9);
  EXPECT_DOUBLE_EQ(prior.chance("waves"), 0.1);
  EXPECT_DOUBLE_EQ(prior.chance("unheard of"), 0.5);
  EXPECT_GT(prior.chance("grid", "splits 1 -> 8"), prior.chance("grid", "splits 1 -> 2") - 1e-12);
  EXPECT_LT(prior.chance("grid", "rows 64 -> 32"), 0.2);
  EXPECT_TRUE(PatternPrior(trials, "measured").knows_nothing()) << "evidence of another kind";
}

TEST(Patterns, RankWhatIsAdvised) {
  Advice large, sure;
  large.rule = "waves";
  large.gain = 2;
  sure.rule = "grid";
  sure.gain = 1.8;
  std::vector<Advice> advice{large, sure};
  rank_by_patterns(advice, {});
  EXPECT_EQ(advice.front().rule, "waves") << "nothing is learned";
  std::vector<PatternTrial> trials(8, {.evidence = "predicted", .rule = "grid", .kept = true});
  trials.resize(16, {.evidence = "predicted", .rule = "waves"});
  rank_by_patterns(advice, PatternPrior(trials, "predicted"));
  EXPECT_EQ(advice.front().rule, "grid");
}

TEST(Patterns, WhatIsShippedSaysWhatItMoves) {
  const auto rules = builtin_rules();
  ASSERT_TRUE(rules);
  const std::vector<Practice> all = practices();
  EXPECT_EQ(all.size(), 11U);
  for (const Practice& one : all) {
    EXPECT_FALSE(one.name.empty() || one.says.empty() || one.moves.empty()) << one.name;
    const bool known = std::any_of(rules->rules.begin(), rules->rules.end(), [&](const Rule& rule) {
      return rule.name == one.rule && rule.counter == one.moves;
    });
    EXPECT_TRUE(one.rule.empty() || known) << one.name << ": no such rule, or it moves another counter";
  }
}

}  // namespace
}  // namespace flashmoe::workflow
