// The answer as a whole, on a kernel of a few instructions: its limiter, its doubts, what it refuses.
#include "predict/prediction.hpp"

#include <gtest/gtest.h>

namespace flashmoe::predict {
namespace {

Launch tensor_launch(std::int64_t ctas, int iterations = 50, const std::string& opcode = "HMMA.16816.F32") {
  Launch launch{.ctas = ctas, .resources = {.registers = 128, .threads = 128}};
  launch.kernel.name = "test";
  for (int i = 0; i < 8; ++i) launch.kernel.instructions.push_back({.opcode = opcode, .control = {.stall = 2}});
  launch.kernel.instructions.push_back({.opcode = "EXIT", .control = {.stall = 5}});
  WarpPath warp;
  for (int i = 0; i < iterations; ++i)
    for (std::uint32_t k = 0; k < 8; ++k) warp.instructions.push_back(k);
  warp.instructions.push_back(8);
  launch.samples = {{std::vector<WarpPath>(4, warp)}};
  return launch;
}

Prediction predicted(const Launch& launch, const std::string& gpu = "l4") {
  const auto answer = predict(launch, *find_gpu(gpu));
  if (!answer) {
    ADD_FAILURE() << answer.error().to_string();
    return {};
  }
  return *answer;
}

TEST(Prediction, TensorBound) {
  const Prediction answer = predicted(tensor_launch(58 * 8));
  EXPECT_TRUE(answer.predicted());
  EXPECT_EQ(answer.limiter, "tensor");
  EXPECT_EQ(answer.uses.front().name, "tensor");
  EXPECT_GT(answer.tensor_use, 0.9);
  EXPECT_LE(answer.tensor_use, 1.001);
  // 8 CTAs an SM, 400 instructions of 16 clocks each.
  EXPECT_NEAR(answer.cycles, 8 * 400 * 16, 0.1 * 8 * 400 * 16);
  EXPECT_NEAR(answer.boost.us, answer.cycles / 2040, 1e-6);
  EXPECT_GT(answer.sustained.us, answer.boost.us);
  EXPECT_LT(answer.boost.least_us, answer.boost.us);
  EXPECT_GT(answer.boost.most_us, answer.boost.us);
}

TEST(Prediction, MoreWorkTakesLonger) {
  double before = 0;
  for (const int iterations : {10, 20, 40, 80}) {
    const double cycles = predicted(tensor_launch(58 * 4, iterations)).cycles;
    EXPECT_GT(cycles, before);
    before = cycles;
  }
}

TEST(Prediction, TooFewCtas) {
  const Prediction answer = predicted(tensor_launch(3));
  EXPECT_EQ(answer.limiter, "too few CTAs");
  EXPECT_LT(answer.tensor_use, 0.06);
}

TEST(Prediction, DramDecidesBeyondL2) {
  Launch launch = tensor_launch(58);
  launch.dram_bytes = launch.working_set_bytes = 1e9;
  const Prediction answer = predicted(launch);
  EXPECT_EQ(answer.limiter, "DRAM");
  EXPECT_NEAR(answer.boost.us, 1e9 / (300.048e9 * 0.75) * 1e6, 1);
}

TEST(Prediction, CtasOfManySizesLieBetweenTheSamples) {
  Launch launch = tensor_launch(58, 10);
  launch.samples.push_back(tensor_launch(1, 50).samples[0]);
  launch.sample_instructions = {100, 500};
  launch.cta_instructions.assign(58, 100);
  const double light = predicted(launch).cycles;
  launch.cta_instructions[57] = 500;
  const double one_heavy = predicted(launch).cycles;
  launch.cta_instructions.assign(58, 300);
  const double all_middle = predicted(launch).cycles;
  EXPECT_GT(one_heavy, 4 * light);
  EXPECT_NEAR(all_middle, (light + one_heavy) / 2, 1);
}

TEST(Prediction, RefusesWhatItCannotTime) {
  const Prediction wgmma = predicted(tensor_launch(10, 10, "HGMMA.64x64x16.F32"), "h100");
  EXPECT_FALSE(wgmma.predicted());
  EXPECT_NE(wgmma.refusals.at(0).find("HGMMA"), std::string::npos);
  const Prediction unknown = predicted(tensor_launch(10, 10, "FROBNICATE"));
  EXPECT_FALSE(unknown.predicted());
  EXPECT_NE(unknown.refusals.at(0).find("FROBNICATE"), std::string::npos);
  Launch unmatched = tensor_launch(10);
  unmatched.unmatched_weight = 0.05;
  EXPECT_EQ(predicted(unmatched).doubts.size(), 1U);
  EXPECT_TRUE(predicted(unmatched).predicted());
  unmatched.unmatched_weight = 0.2;
  EXPECT_FALSE(predicted(unmatched).predicted());
}

TEST(Prediction, DoubtsWidenTheInterval) {
  const Prediction known = predicted(tensor_launch(4000), "l4");
  const Prediction doubted = predicted(tensor_launch(8000), "rtx5090");
  EXPECT_TRUE(known.doubts.empty());
  ASSERT_FALSE(doubted.doubts.empty());
  const auto width = [](const Time& time) { return (time.us - time.least_us) / time.us; };
  EXPECT_GT(width(doubted.boost), width(known.boost));
  // Below ten microseconds the interval is wider too.
  EXPECT_GT(width(predicted(tensor_launch(58)).boost), width(known.boost));
}

TEST(Prediction, AtomicsAndFencesAreADoubt) {
  for (const char* opcode : {"RED.E.ADD.STRONG.GPU", "ATOMS.ADD", "MEMBAR.SC.GPU"}) {
    Launch launch = tensor_launch(58);
    EXPECT_TRUE(predicted(launch).doubts.empty());
    launch.kernel.instructions[0].opcode = opcode;  // an eighth of what runs
    ASSERT_EQ(predicted(launch).doubts.size(), 1U) << opcode;
    EXPECT_NE(predicted(launch).doubts[0].find("atomics and fences"), std::string::npos);
  }
}

TEST(Prediction, L2AsTheLimit) {
  Launch launch = tensor_launch(58 * 4, 50, "LDG.E.128");
  const Prediction unknown_share = predicted(launch, "l4");
  EXPECT_FALSE(unknown_share.predicted());
  const Prediction known_share = predicted(launch, "a100");
  EXPECT_TRUE(known_share.predicted());
  EXPECT_EQ(known_share.limiter, "L2");
  EXPECT_FALSE(known_share.doubts.empty());
}

// The share of an SM is stated for all SMs reading: few of them have more, up to what one can take.
TEST(Prediction, FewSmsHaveMoreOfL2) {
  const auto cycles = [](std::int64_t ctas) {
    Launch launch = tensor_launch(ctas, 50, "LDG.E.128");
    for (SassInstruction& load : launch.kernel.instructions) load.control.write_barrier = 0;
    launch.kernel.instructions.back().control.wait_mask = 1;
    return predicted(launch, "a100").cycles;
  };
  const double few = cycles(4);
  const double all = cycles(108);
  // 1600 instructions of 512 bytes, at 64 and at 35.5 a clock.
  EXPECT_NEAR(few, 1600 * 512 / 64.0, 0.05 * all);
  EXPECT_NEAR(all, 1600 * 512 / 35.5, 0.05 * all);
}

TEST(Prediction, RefusesNonsense) {
  Launch launch = tensor_launch(10);
  launch.samples.clear();
  EXPECT_FALSE(predict(launch, *find_gpu("l4")));
  launch = tensor_launch(10);
  launch.cta_instructions = {1, 2};
  EXPECT_FALSE(predict(launch, *find_gpu("l4")));
  launch = tensor_launch(10);
  launch.samples[0].warps[0].instructions.push_back(99);
  EXPECT_FALSE(predict(launch, *find_gpu("l4")));
  launch = tensor_launch(10);
  launch.resources.dynamic_shared_bytes = 1 << 20;
  EXPECT_FALSE(predict(launch, *find_gpu("l4")));
}

}  // namespace
}  // namespace flashmoe::predict
