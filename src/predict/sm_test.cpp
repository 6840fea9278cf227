// Small programs whose cycles can be counted by hand from the rules in sm.hpp.
#include "predict/sm.hpp"

#include <gtest/gtest.h>

namespace flashmoe::predict {
namespace {

SassInstruction make(const std::string& opcode, Control control = {.stall = 1},
                     std::vector<std::string> operands = {}) {
  return {.opcode = opcode, .operands = std::move(operands), .control = control};
}

Machine machine(const std::string& gpu = "l4") {
  const auto found = find_gpu(gpu);
  EXPECT_TRUE(found);
  const auto made = machine_of(*found);
  EXPECT_TRUE(made);
  return *made;
}

CtaPath straight(std::size_t instructions, std::size_t warps = 1) {
  WarpPath path;
  for (std::uint32_t i = 0; i < instructions; ++i) path.instructions.push_back(i);
  return {std::vector<WarpPath>(warps, path)};
}

SmRun run(const std::vector<SassInstruction>& code, std::size_t warps, const Machine& on, SmSetup setup = {}) {
  const Program program = make_program({.instructions = code}, {}, on);
  const CtaPath path = straight(code.size(), warps);
  auto made = simulate(program, {&path, 1}, setup);
  if (!made) {
    ADD_FAILURE() << made.error().to_string();
    return {};
  }
  return *made;
}

TEST(Sm, StallCountsAddUp) {
  // Issues at 0, 4, 10: the last cycle is 10, so 11 have passed.
  EXPECT_EQ(run({make("FADD", {.stall = 4}), make("FADD", {.stall = 6}), make("EXIT")}, 1, machine()).cycles, 11U);
}

TEST(Sm, YieldKeepsOutOfTheNextCycle) {
  EXPECT_EQ(run({make("NOP", {.stall = 1}), make("NOP")}, 1, machine()).cycles, 2U);
  EXPECT_EQ(run({make("NOP", {.stall = 1, .yield = true}), make("NOP")}, 1, machine()).cycles, 3U);
}

TEST(Sm, TensorPipeIsHeld) {
  const std::vector<SassInstruction> code(10, make("HMMA.16816.F32"));
  EXPECT_EQ(run(code, 1, machine("l4")).cycles, 9 * 16 + 1U);
  EXPECT_EQ(run(code, 1, machine("rtx4090")).cycles, 9 * 32 + 1U);
  EXPECT_EQ(run(code, 1, machine("a100")).cycles, 9 * 8 + 1U);
  // Half the size, half the time; with fp16 sums a GeForce card is as fast as the others.
  EXPECT_EQ(run(std::vector<SassInstruction>(10, make("HMMA.1688.F32")), 1, machine("l4")).cycles, 9 * 8 + 1U);
  EXPECT_EQ(run(std::vector<SassInstruction>(10, make("HMMA.16816.F16")), 1, machine("rtx4090")).cycles, 9 * 16 + 1U);
  // 6.4 clocks on average.
  EXPECT_NEAR(
      static_cast<double>(run(std::vector<SassInstruction>(101, make("HMMA.16816.F32")), 1, machine("h100")).cycles),
      641, 1);
}

TEST(Sm, FourSubPartitionsWorkBesideEachOther) {
  const std::vector<SassInstruction> code(10, make("HMMA.16816.F32"));
  const SmRun four = run(code, 4, machine());
  EXPECT_EQ(four.cycles, 9 * 16 + 1U);
  EXPECT_NEAR(four.use(Pipe::tensor), 160.0 / 145, 1e-9);  // the last one's 16 cycles lie beyond the end
  EXPECT_EQ(run(code, 8, machine()).cycles, 19 * 16 + 1U);
}

TEST(Sm, IntegerAndFloatingPointShareTheFmaPipe) {
  const std::vector<SassInstruction> floats(8, make("FFMA"));
  const std::vector<SassInstruction> integers(8, make("IMAD"));
  EXPECT_EQ(run(floats, 1, machine("l4")).cycles, 8U);
  EXPECT_EQ(run(floats, 1, machine("a100")).cycles, 15U);
  EXPECT_EQ(run(integers, 1, machine("l4")).cycles, 15U);
}

TEST(Sm, CountersHoldBackWhoWaits) {
  // LDS at 0: one wavefront and 24 cycles.
  const SmRun waits =
      run({make("LDS", {.stall = 1, .write_barrier = 2}), make("FADD", {.stall = 1, .wait_mask = 4})}, 1, machine());
  EXPECT_EQ(waits.cycles, 25U);
  EXPECT_EQ(waits.stalled[1][static_cast<std::size_t>(Stall::short_counter)], 23U);
  EXPECT_EQ(
      run({make("LDS", {.stall = 1, .write_barrier = 2}), make("FADD", {.stall = 1, .wait_mask = 2})}, 1, machine())
          .cycles,
      2U);
}

TEST(Sm, ConflictsHoldThePort) {
  std::vector<SassInstruction> code(4, make("LDS", {.stall = 1, .write_barrier = 0}));
  code.push_back(make("EXIT", {.stall = 1, .wait_mask = 1}));
  const Machine l4 = machine();
  const CtaPath path = straight(code.size());
  const auto cycles = [&](double wavefronts) {
    MemoryShapes shapes(code.size());
    for (std::size_t i = 0; i < 4; ++i) shapes[i].wavefronts = wavefronts;
    return simulate(make_program({.instructions = code}, shapes, l4), {&path, 1}, {})->cycles;
  };
  EXPECT_EQ(cycles(8), 3 * 8 + 7 + 24 + 1U);
  EXPECT_EQ(cycles(32), 3 * 32 + 31 + 24 + 1U);
}

TEST(Sm, TheMemoryQueueFillsUp) {
  // Each begins 32 cycles after the one before; the seventh issues when the second has begun.
  std::vector<SassInstruction> code(7, make("LDS.128"));
  MemoryShapes shapes(code.size());
  for (MemoryShape& shape : shapes) shape.wavefronts = 32;
  const CtaPath path = straight(code.size());
  const auto run = simulate(make_program({.instructions = code}, shapes, machine()), {&path, 1}, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->cycles, 34U);
  EXPECT_GT(run->stalled[6][static_cast<std::size_t>(Stall::memory_queue)], 20U);
}

TEST(Sm, AsynchronousCopiesAreAwaitedByGroups) {
  const auto code = [](const std::string& open) {
    return std::vector<SassInstruction>{make("LDGSTS.E.BYPASS.128"),
                                        make("LDGDEPBAR", {.stall = 1, .write_barrier = 0}),
                                        make("DEPBAR.LE", {.stall = 1}, {"SB0", open}), make("EXIT")};
  };
  EXPECT_LT(run(code("0x1"), 1, machine()).cycles, 10U);
  const SmRun waits = run(code("0x0"), 1, machine());
  // 512 bytes at 20 a clock, and 110 ns at 2040 MHz.
  EXPECT_EQ(waits.cycles, 26 + 224 + 2U);
  EXPECT_GT(waits.stalled[2][static_cast<std::size_t>(Stall::async_copy)], 200U);
}

TEST(Sm, BarriersWaitForTheLast) {
  // Warp 0 arrives at once, warp 1 after 20 cycles; 16 later both go on.
  const std::vector<SassInstruction> code{make("NOP", {.stall = 10}), make("NOP", {.stall = 10}),
                                          make("BAR.SYNC.DEFER_BLOCKING", {.stall = 1}, {"0x0"}), make("EXIT")};
  const Program program = make_program({.instructions = code}, {}, machine());
  const CtaPath path{{WarpPath{{2, 3}}, WarpPath{{0, 1, 2, 3}}}};
  const auto done = simulate(program, {&path, 1}, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->cycles, 20 + 16 + 1U);
  EXPECT_EQ(done->forced_barriers, 0U);
  EXPECT_EQ(done->stalled[2][static_cast<std::size_t>(Stall::barrier)], 35U + 15U);
}

TEST(Sm, NamedBarriersWaitForTheirCount) {
  const std::vector<SassInstruction> code{make("BAR.SYNC.DEFER_BLOCKING", {.stall = 1}, {"0x1", "0x40"}),
                                          make("BAR.ARV", {.stall = 1}, {"0x1", "0x40"}), make("EXIT")};
  const Program program = make_program({.instructions = code}, {}, machine());
  // Of four warps two meet; one of them does not wait.
  const CtaPath path{{WarpPath{{0, 2}}, WarpPath{{1, 2}}, WarpPath{{2}}, WarpPath{{2}}}};
  const auto done = simulate(program, {&path, 1}, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->cycles, 17U);
  EXPECT_EQ(done->forced_barriers, 0U);
}

TEST(Sm, ABarrierThatNobodyElseReachesIsForcedAndCounted) {
  const std::vector<SassInstruction> code{make("BAR.SYNC", {.stall = 1}, {"0x1", "0x80"}), make("EXIT")};
  const Program program = make_program({.instructions = code}, {}, machine());
  const CtaPath path{{WarpPath{{0, 1}}}};
  const auto done = simulate(program, {&path, 1}, {});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->forced_barriers, 1U);
}

TEST(Sm, CtasFollowEachOtherInASlot) {
  const std::vector<SassInstruction> code{make("NOP", {.stall = 9}), make("EXIT")};
  const SmRun two = run(code, 1, machine(), {.resident = 1, .ctas = 2, .gap = 300});
  ASSERT_EQ(two.ctas.size(), 2U);
  EXPECT_EQ(two.ctas[0].end, 10U);
  EXPECT_EQ(two.ctas[1].begin, 9 + 300U);
  EXPECT_EQ(two.cycles, 9 + 300 + 10U);
  EXPECT_EQ(run(code, 1, machine(), {.resident = 2, .ctas = 2}).cycles, 10U);
  EXPECT_EQ(run(code, 1, machine(), {.resident = 2, .ctas = 2, .offset = 5}).cycles, 15U);
}

// Every cycle of every warp has a reason.
TEST(Sm, StallsAddUpToTheCyclesOfTheWarps) {
  std::vector<SassInstruction> code;
  for (int i = 0; i < 20; ++i) {
    code.push_back(make("LDSM.16.M88.4", {.stall = 1, .write_barrier = 0}));
    code.push_back(make("HMMA.16816.F32", {.stall = 2, .wait_mask = 1}));
    code.push_back(make("MUFU.EX2", {.stall = 1, .write_barrier = 1}));
    code.push_back(make("FADD", {.stall = 4, .wait_mask = 2}));
    code.push_back(make("BAR.SYNC", {.stall = 1}, {"0x0"}));
  }
  code.push_back(make("EXIT"));
  const SmRun one = run(code, 4, machine());
  std::uint64_t sum = 0;
  for (const StallCycles& cycles : one.stalled)
    for (const std::uint64_t some : cycles) sum += some;
  EXPECT_EQ(sum, 4 * one.cycles);
  EXPECT_EQ(one.instructions, 4 * code.size());
}

TEST(Sm, RefusesWhatCannotBe) {
  const Program program = make_program({.instructions = {make("EXIT")}}, {}, machine());
  const auto refusal = [&](const CtaPath& path, SmSetup setup) {
    const auto made = simulate(program, {&path, 1}, setup);
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal(straight(2), {}), "a path names instruction 1 of 1");
  EXPECT_EQ(refusal({}, {}), "a CTA without warps");
  EXPECT_EQ(refusal({{WarpPath{}}}, {}), "a warp that executes nothing");
  EXPECT_EQ(refusal(straight(1, 32), {.resident = 2, .ctas = 2}), "2 CTAs of 32 warps do not fit into an SM of 48");
  EXPECT_NE(refusal(straight(1), {.resident = 1, .ctas = 0}), "");
}

}  // namespace
}  // namespace flashmoe::predict
