// Loops found in paths, and a loop that is simulated in part against the same one in full.
#include "predict/cta_cost.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace flashmoe::predict {
namespace {

std::vector<std::uint32_t> range(std::uint32_t first, std::uint32_t last) {
  std::vector<std::uint32_t> made(last - first + 1);
  std::iota(made.begin(), made.end(), first);
  return made;
}

void append(WarpPath& path, const std::vector<std::uint32_t>& more, int times = 1) {
  for (int i = 0; i < times; ++i) path.instructions.insert(path.instructions.end(), more.begin(), more.end());
}

TEST(LongestLoop, IsTheOneThatCoversMost) {
  WarpPath path;
  append(path, range(0, 9));
  append(path, range(10, 11), 20);  // 40 instructions
  append(path, range(12, 31), 5);   // 100
  append(path, range(32, 40));
  const Loop loop = longest_loop(path);
  EXPECT_EQ(loop.begin, 50U);
  EXPECT_EQ(loop.period, 20U);
  EXPECT_EQ(loop.count, 4U);  // the last is followed by something else
}

TEST(LongestLoop, IterationsMayAlternate) {
  WarpPath path;
  for (int i = 0; i < 12; ++i) append(path, i % 2 == 0 ? range(4, 9) : range(4, 20));
  const Loop loop = longest_loop(path);
  EXPECT_EQ(loop.period, 6U + 17U);
  EXPECT_GE(loop.count, 5U);
}

TEST(LongestLoop, NoneInAStraightPath) {
  WarpPath path;
  append(path, range(0, 99));
  EXPECT_EQ(longest_loop(path).period, 0U);
  EXPECT_EQ(longest_loop({}).period, 0U);
}

class Costs : public testing::Test {
 protected:
  Costs() {
    const auto add = [&](const std::string& opcode, Control control, std::vector<std::string> operands = {}) {
      kernel_.instructions.push_back({.opcode = opcode, .operands = std::move(operands), .control = control});
    };
    add("S2R", {.stall = 1, .write_barrier = 0});
    for (int i = 0; i < 4; ++i) {
      add("LDSM.16.M88.4", {.stall = 1, .write_barrier = 0});
      add("HMMA.16816.F32", {.stall = 2, .wait_mask = 1});
      add("MUFU.EX2", {.stall = 1, .write_barrier = 1});
      add("FADD", {.stall = 4, .wait_mask = 2});
    }
    add("BAR.SYNC", {.stall = 1}, {"0x0"});
    add("BRA", {.stall = 5});
    add("EXIT", {.stall = 1});
    program_ = make_program(kernel_, {}, *machine_of(*find_gpu("l4")));
  }

  [[nodiscard]] static CtaPath path(int iterations) {
    WarpPath warp;
    append(warp, {0});
    append(warp, range(1, 18), iterations);
    append(warp, {19});
    return {std::vector<WarpPath>(4, warp)};
  }

  SassKernel kernel_{};
  Program program_{};
};

TEST_F(Costs, ExtensionAgreesWithTheWhole) {
  const auto whole = cta_cost(program_, path(60), 2, ~0ULL);
  const auto extended = cta_cost(program_, path(60), 2, 0);
  ASSERT_TRUE(whole && extended);
  EXPECT_FALSE(whole->extended);
  EXPECT_TRUE(extended->extended);
  EXPECT_NEAR(extended->cycles / whole->cycles, 1, 0.01);
  EXPECT_NEAR(extended->instructions, whole->instructions, 1e-6);
  EXPECT_NEAR(extended->use(Pipe::tensor), whole->use(Pipe::tensor), 0.01);
  // Executions are sums: exact.
  const auto issue = static_cast<std::size_t>(Stall::issue);
  for (std::size_t i = 0; i < whole->stalled.size(); ++i)
    EXPECT_NEAR(extended->stalled[i][issue], whole->stalled[i][issue], 1e-6) << i;
}

TEST_F(Costs, ShortOrUnequalLoopsAreSimulatedInFull) {
  EXPECT_FALSE(cta_cost(program_, path(12), 1, 0)->extended);
  CtaPath unequal = path(40);
  append(unequal.warps[1], {0, 0, 0});
  unequal.warps[2] = path(41).warps[0];
  EXPECT_FALSE(cta_cost(program_, unequal, 1, 0)->extended);
}

TEST_F(Costs, AnIterationInTheMiddle) {
  const auto one = iteration_cost(program_, path(20), 2);
  ASSERT_TRUE(one) << one.error().to_string();
  EXPECT_NEAR(one->instructions, 4 * 18, 1e-6);
  EXPECT_NEAR(one->busy[static_cast<std::size_t>(Pipe::tensor)], 4 * 4 * 16, 1e-6);
  EXPECT_FALSE(iteration_cost(program_, path(2), 2));
}

TEST_F(Costs, MoreResidentCtasTakeLongerEachAndLessTogether) {
  const auto alone = cta_cost(program_, path(20), 1);
  const auto shared = cta_cost(program_, path(20), 2);
  ASSERT_TRUE(alone && shared);
  EXPECT_GT(shared->cycles, alone->cycles);
  EXPECT_LT(shared->sm_cycles, alone->sm_cycles);
}

}  // namespace
}  // namespace flashmoe::predict
