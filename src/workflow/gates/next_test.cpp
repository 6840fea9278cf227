#include "workflow/gates/next.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Project here() {
  Project project;
  project.directory = std::filesystem::current_path().string();
  return project;
}

TEST(Next, AfterARunThatHoldsComesTheNextQuestion) {
  EXPECT_EQ(next_command(here(), {.device = "cpu", .outcome = Outcome::holds, .is_whole = true}), "cudadent compare");
  EXPECT_EQ(next_command(here(), {.device = "cpu", .outcome = Outcome::holds}), "cudadent gate");
  EXPECT_EQ(next_command(here(), {.device = "virtual:l4", .outcome = Outcome::holds}),
            "cudadent profile --device virtual:l4");
}

TEST(Next, AWrongResultIsLookedAtWithTheSameInputs) {
  const Standpoint wrong{
      .device = "virtual:l4", .outcome = Outcome::fails, .code = codes::correctness_wrong_result, .seed = 7};
  EXPECT_EQ(next_command(here(), wrong), "cudadent gate --device virtual:l4 --until correctness --seed 7");
}

// A CUDA twin tells more than the CPU: it is what `profile` takes by itself where there is one.
TEST(Next, ASlowKernelIsProfiled) {
  const Standpoint slow{.device = "cpu", .outcome = Outcome::fails, .code = codes::performance_too_slow};
  Project project = here();
  EXPECT_EQ(next_command(project, slow), "cudadent profile");
  project.instances.emplace_back();
  EXPECT_EQ(next_command(project, slow), "cudadent profile");
}

TEST(Next, EveryCodeLeadsSomewhere) {
  for (const ProblemCode& row : all_codes()) {
    EXPECT_NE(next_command(here(), {.device = "cpu", .outcome = Outcome::fails, .code = row.code}), "") << row.code;
  }
}

TEST(Next, APathIsAWordOfTheShell) {
  EXPECT_EQ(project_argument(std::filesystem::current_path().string()), "");
  EXPECT_EQ(project_argument((std::filesystem::current_path() / "my kernel's").string()), " 'my kernel'\\''s'");
  EXPECT_EQ(project_argument("/"), " /");
}

}  // namespace
}  // namespace flashmoe::workflow
