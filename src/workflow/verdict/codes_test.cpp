#include "workflow/verdict/codes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace flashmoe::workflow {
namespace {

TEST(Codes, AreUniqueAndSayWhatTheyMean) {
  std::set<std::string> seen;
  for (const ProblemCode& row : all_codes()) {
    const std::string code = row.code;
    EXPECT_TRUE(seen.insert(code).second) << code << " stands there twice";
    EXPECT_TRUE(std::all_of(code.begin(), code.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || c == '_' || c == '.';
    })) << code;
    EXPECT_NE(std::string(row.about), "") << code;
    EXPECT_NE(std::string(row.next), "") << code;
  }
}

TEST(Codes, SayWhatACommandExitsWith) {
  EXPECT_EQ(exit_code(Diagnostic{.message = "m", .code = codes::usage_device}), 2);
  EXPECT_EQ(exit_code(Diagnostic{.message = "m", .code = codes::project_key}), 2);
  EXPECT_EQ(exit_code(Diagnostic{.message = "m", .code = codes::environment_no_nvcc}), 4);
  EXPECT_EQ(exit_code(Diagnostic{.message = "m"}), 4) << "whatever it is, it says nothing about a kernel";
  EXPECT_EQ(exit_code(Diagnostic{.message = "m", .code = "no.such"}), 4);
}

TEST(ExitCodes, TellAKernelThatDoesNotHoldFromWhatCouldNotRun) {
  EXPECT_EQ(exit_code(Outcome::holds), 0);
  EXPECT_EQ(exit_code(Outcome::fails), 1);
  EXPECT_EQ(exit_code(Outcome::inconclusive), 3);
  EXPECT_EQ(exit_code(Outcome::could_not_run), 4);
}

}  // namespace
}  // namespace flashmoe::workflow
