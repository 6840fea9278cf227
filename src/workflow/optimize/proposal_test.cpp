#include "workflow/optimize/proposal.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace flashmoe::workflow {
namespace {

std::vector<std::string> hypotheses(const Project& project, const std::vector<Advice>& advice) {
  std::vector<std::string> found;
  for (const Proposal& proposal : propose_moves(project, advice, "cpu")) found.push_back(proposal.hypothesis);
  return found;
}

TEST(Proposal, NeighboursTakeAStepOfEveryTunableBeforeASecondOfAny) {
  Project project;
  project.tunables = {{.name = "tile", .choices = {8, 16, 32}}, {.name = "splits", .choices = {1, 2}}};
  project.point = {{"tile", 8}, {"splits", 1}};
  const std::vector<std::string> expected = {"tile 8 -> 16: a neighbour", "splits 1 -> 2: a neighbour",
                                             "tile 8 -> 32: a neighbour"};
  EXPECT_EQ(hypotheses(project, {}), expected);
}

TEST(Proposal, WhatTheAdviceAsksForComesFirst) {
  Project project;
  project.tunables = {{.name = "tile", .choices = {8, 16}},
                      {.name = "splits", .choices = {1, 2}, .phase = "parallelism"}};
  project.point = {{"tile", 8}, {"splits", 1}};
  Advice advice;
  advice.phase = "parallelism";
  advice.bottleneck = "too few CTAs";
  const std::vector<std::string> expected = {"splits 1 -> 2: too few CTAs", "tile 8 -> 16: a neighbour",
                                             "splits 1 -> 2: a neighbour"};
  EXPECT_EQ(hypotheses(project, {advice}), expected);
}

TEST(Proposal, ALegalMoveBringsTheValueThatTheRulesDemand) {
  Project project;
  project.tunables = {{.name = "stages", .choices = {1, 2}}, {.name = "async", .choices = {0, 1}, .is_boolean = true}};
  project.tunable_rules = {{.when = "stages > 1", .then = "async"}};
  project.point = {{"stages", 1}, {"async", 0}};
  const std::vector<std::string> expected = {"stages 1 -> 2 (it needs async false -> true): a neighbour",
                                             "async false -> true: a neighbour"};
  EXPECT_EQ(hypotheses(project, {}), expected);
}

}  // namespace
}  // namespace flashmoe::workflow
