#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "workflow/project/project.hpp"

namespace flashmoe::workflow {
namespace {

const Values values{{"n", 1000}, {"S", 128}, {"D", 64}, {"causal", 1}, {"scale", 0.125}};

TEST(Expression, ComputesWhatArithmeticSays) {
  const std::vector<std::pair<std::string, double>> cases{
      {"7", 7},
      {" n ", 1000},
      {"1 + 2 * 3", 7},
      {"(1 + 2) * 3", 9},
      {"10 - 3 - 2", 5},
      {"100 / 10 / 5", 2},
      {"7 / 2", 3.5},
      {"-S + 130", 2},
      {"--3", 3},
      {"2 * -3", -6},
      {"n % 256", 232},
      {"-1 % 4", 3},
      {"ceil_div(n, 256)", 4},
      {"ceil_div(1024, 256)", 4},
      {"ceil_div(0, 256)", 0},
      {"floor_div(n, 256)", 3},
      {"floor_div(-1, 256)", -1},
      {"min(S, D)", 64},
      {"max(S, D)", 128},
      {"pow2_ceil(n)", 1024},
      {"pow2_ceil(1024)", 1024},
      {"pow2_ceil(0)", 1},
      {"if(causal, S, D)", 128},
      {"if(S < D, S, D)", 64},
      {"S >= D", 1},
      {"S == D", 0},
      {"S != D", 1},
      {"S <= 128", 1},
      {"S > 128", 0},
      {"1e3 + .5", 1000.5},
      {"1.5e-1", 0.15},
      {"scale * 8", 1},
      {"9007199254740992", 9007199254740992.0},
      {"ceil_div(ceil_div(n, 4), ceil_div(S, 2))", 4},
      {"0 * -1", 0},
      {"S > 1 and D == 64", 1},
      {"S > 1 and D != 64", 0},
      {"S < 1 or D == 64", 1},
      {"not causal", 0},
      {"not not S", 1},
      {"not S == 128 or causal", 1},
      {"1 or 0 and 0", 1},
      {"(1 or 0) and 0", 0},
      {"if(causal and S > 1, 2, 3)", 2},
  };
  for (const auto& [text, expected] : cases) {
    const Result<double> value = evaluate(text, values);
    ASSERT_TRUE(value) << text << ": " << value.error().to_string();
    EXPECT_DOUBLE_EQ(*value, expected) << text;
    EXPECT_FALSE(*value == 0 && std::signbit(*value)) << text;
  }
}

struct Wrong {
  std::string text;
  int column;  // 1-based, where the mistake is
  std::string says;
};

TEST(Expression, PointsAtTheMistake) {
  const std::vector<Wrong> cases{
      {"", 1, "is empty"},
      {"1 +", 4, "ends where a value is expected"},
      {"(1 + 2", 7, "')' is missing"},
      {"1 + 2)", 6, "')' is not expected here"},
      {"m", 1, "'m' is not a parameter; parameters are D, S, causal, n, scale"},
      {"1 + Causal", 5, "'Causal' is not a parameter"},
      {"1 or m", 6, "'m' is not a parameter"},
      {"0 and m", 7, "'m' is not a parameter"},
      {"1 and", 6, "ends where a value is expected"},
      {"1 order 2", 3, "'o' is not expected here"},
      {"2n", 1, "'2n' is not a number"},
      {"0x10", 1, "'0x10' is not a number"},
      {"1..2", 1, "'1..2' is not a number"},
      {"inf", 1, "'inf' is not a parameter"},
      {"n $ 2", 3, "'$' is not expected here"},
      {"* n", 1, "'*' is not a value"},
      {"n / (S - 128)", 3, "1000 / 0 has no value"},
      {"n % 0", 3, "the divisor at least 1"},
      {"ceil_div(n)", 1, "ceil_div takes 2 arguments, not 1"},
      {"ceildiv(n, 2)", 1, "'ceildiv' is not a function"},
      {"ceil_div(n, 0)", 1, "the divisor at least 1"},
      {"ceil_div(scale, 2)", 1, "both must be integers"},
      {"min(1, 2", 9, "')' is missing"},
      {"1e300 * 1e300", 1, "beyond 2^53"},
      {"9007199254740992 + 2", 18, "beyond 2^53"},
      {"9007199254740992 * n", 18, "beyond 2^53"},
  };
  for (const Wrong& wrong : cases) {
    const Result<double> value = evaluate(wrong.text, values);
    ASSERT_FALSE(value) << wrong.text << " = " << *value;
    EXPECT_EQ(value.error().column, wrong.column) << wrong.text << ": " << value.error().to_string();
    EXPECT_NE(value.error().message.find(wrong.says), std::string::npos) << value.error().to_string();
  }
  EXPECT_NE(evaluate("ceildiv(n, 2)", values).error().fix.find("'ceil_div'"), std::string::npos);
  EXPECT_NE(evaluate("Causal", values).error().fix.find("'causal'"), std::string::npos);
}

TEST(Expression, DeepNestingIsRefusedAndDoesNotOverflowTheStack) {
  EXPECT_TRUE(evaluate(std::string(60, '(') + "1" + std::string(60, ')'), values));
  EXPECT_FALSE(evaluate(std::string(500, '(') + "1" + std::string(500, ')'), values));
  EXPECT_FALSE(evaluate(std::string(500, '-') + "1", values));
  std::string denials;
  for (int i = 0; i < 200; ++i) denials += "not ";
  EXPECT_FALSE(evaluate(denials + "1", values));
  EXPECT_FALSE(evaluate(std::string(100'000, '1'), values));
}

// The laws of integer division, over random operands: they hold exactly, or the tool launches a wrong grid.
TEST(Expression, DivisionsAgreeWithIntegers) {
  std::mt19937_64 random(42);
  for (int i = 0; i < 2000; ++i) {
    const auto a = static_cast<std::int64_t>(random() % (1ull << (1 + random() % 50)));
    const auto b = static_cast<std::int64_t>(1 + random() % (1ull << (1 + random() % 20)));
    const Values operands{{"a", static_cast<double>(a)}, {"b", static_cast<double>(b)}};
    EXPECT_EQ(*evaluate("ceil_div(a, b)", operands), static_cast<double>((a + b - 1) / b)) << a << " " << b;
    EXPECT_EQ(*evaluate("floor_div(a, b)", operands), static_cast<double>(a / b)) << a << " " << b;
    EXPECT_EQ(*evaluate("a % b", operands), static_cast<double>(a % b)) << a << " " << b;
    EXPECT_EQ(*evaluate("floor_div(a, b) * b + a % b", operands), static_cast<double>(a)) << a << " " << b;
  }
}

}  // namespace
}  // namespace flashmoe::workflow
