#include "workflow/reproduce/recipe.hpp"

#include <gtest/gtest.h>

#include "workflow/journal/records_for_test.hpp"

namespace flashmoe::workflow {
namespace {

using Words = std::vector<std::string>;

const std::string commit(40, 'a');

Record with_recipe(Words argv) {
  Record record = compare_record("aaaabbbbcccc", "KEEP", 0.05);
  std::get<CompareRecord>(record.body).recipe = Recipe{.argv = std::move(argv)};
  return record;
}

TEST(Recipe, OnlyKnownVerbsWithCheckedOptionsAreRun) {
  EXPECT_TRUE(check_recipe({"compare",
                            "--base",
                            commit,
                            "--candidate",
                            commit,
                            "--workload",
                            "target",
                            "--min-gain",
                            "0.02",
                            "--index",
                            "1",
                            "--seed",
                            "18446744073709551615",
                            "--max-pairs",
                            "6",
                            "--block-ms",
                            "2",
                            "--limit",
                            "1800",
                            "--phase",
                            "tuning",
                            "--final"}));
  EXPECT_TRUE(check_recipe({"gate", "--device", "virtual:l4", "--until", "correctness"}));
  for (const Words& argv : {Words{},
                            Words{"run", "sh", "-c", "id"},
                            Words{"run", "--", "sh"},
                            Words{"worker"},
                            Words{"--help"},
                            Words{"compare", "--base", "/tmp/elsewhere"},
                            Words{"compare", "--base", "../elsewhere"},
                            Words{"compare", "--candidate", "--upload-pack=sh"},
                            Words{"compare", "--base", "HEAD"},
                            Words{"compare", "--project", "/tmp/elsewhere"},
                            Words{"compare", "/tmp/elsewhere"},
                            Words{"compare", "--run", "tuesday"},
                            Words{"compare", "--workload", "--project=/tmp"},
                            Words{"compare", "--seed", "7; id"},
                            Words{"compare", "--seed"},
                            Words{"compare", "--max-pairs", "1e9"},
                            Words{"gate", "/tmp/elsewhere"},
                            Words{"gate", "--only", "everything"},
                            Words{"gate", "--device", "cpu x"},
                            Words{"gate", "--threads", "-1"},
                            Words{"gate", "--base", commit}}) {
    EXPECT_FALSE(check_recipe(argv)) << (argv.empty() ? "" : argv.back());
  }
}

TEST(Recipe, ARecordCannotChooseAnotherCommand) {
  const auto shell = recipe_of(with_recipe({"run", "sh", "-c", "touch stolen"}));
  ASSERT_FALSE(shell);
  EXPECT_NE(shell.error().message.find("'run'"), std::string::npos) << shell.error().message;
  EXPECT_FALSE(recipe_of(with_recipe({"gate", "--device", "cpu"}))) << "a comparison is no gate run";
  EXPECT_TRUE(recipe_of(with_recipe({"compare", "--base", commit})));
}

TEST(Recipe, AGateRunIsRunWithItsOwnOptions) {
  Record record = gate_record("a1", 1.1, Outcome::holds);
  auto& run = std::get<GateRecord>(record.body);
  const Words kept{"gate", "--device", "cpu", "--seed", "7",          "--threads",
                   "2",    "--limit",  "3.5", "--only", "performance"};
  run.recipe = Recipe{.argv = kept};
  EXPECT_EQ(*recipe_of(record), kept);
}

// Records that kept no recipe: the gates tell how far the run was to go.
TEST(Recipe, AnOldGateRunEndsWhereItEnded) {
  Record record = gate_record("a1", 1.1, Outcome::holds);
  auto& run = std::get<GateRecord>(record.body);
  run.gates = {GateResult{.gate = "environment"}, GateResult{.gate = "build"}, GateResult{.gate = "correctness"}};
  EXPECT_EQ(*recipe_of(record), (Words{"gate", "--device", "cpu", "--until", "correctness"}));
  for (GateResult& gate : run.gates) {
    gate.not_run = gate.gate != "correctness";
    if (gate.not_run) gate.summary = "not run: not asked for";
  }
  EXPECT_EQ(*recipe_of(record), (Words{"gate", "--device", "cpu", "--only", "correctness"}));
  run.gates = {GateResult{.gate = "environment"}, GateResult{.gate = "build"}, GateResult{.gate = "correctness"},
               GateResult{.gate = "performance"}};
  EXPECT_EQ(*recipe_of(record), (Words{"gate", "--device", "cpu"}));
}

}  // namespace
}  // namespace flashmoe::workflow
