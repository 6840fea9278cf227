#include "predict/walk.hpp"

#include <gtest/gtest.h>

#include "predict/blocks.hpp"
#include "predict/votes.hpp"

namespace flashmoe::predict {
namespace {

struct Row {
  const char* opcode;
  std::uint32_t line = 0;
  const char* guard = "";
  int target = -1;
  const char* operand = "";
};

SassKernel kernel_of(const std::vector<Row>& rows) {
  SassKernel kernel{.name = "k", .architecture = "sm_89"};
  for (const Row& row : rows) {
    SassInstruction& one = kernel.instructions.emplace_back();
    one.address = static_cast<std::uint32_t>(16 * (kernel.instructions.size() - 1));
    one.opcode = row.opcode;
    one.guard = row.guard;
    one.ptx_line = row.line;
    if (*row.operand != 0) one.operands.emplace_back(row.operand);
    if (row.target >= 0) one.target = static_cast<std::uint32_t>(row.target);
  }
  return kernel;
}

PtxRun run_of(const PtxWarp& warp) {
  PtxRun run{.kernel = "k"};
  run.ctas.push_back({.place = 0, .warps = {warp}});
  return run;
}

using Path = std::vector<std::uint32_t>;

Path path_of(const SassPaths& paths) {
  return paths.ctas.at(0).warps.at(0).instructions;
}

SassPaths walked(const std::vector<Row>& rows, const PtxWarp& warp) {
  const auto paths = sass_paths(kernel_of(rows), run_of(warp));
  EXPECT_TRUE(paths) << (paths ? "" : paths.error().to_string());
  return paths ? *paths : SassPaths{};
}

// Line 3 is "@p bra loop", taken twice.
const PtxWarp loop_of_three{.branches = {{3, {{Outcome::taken, 2}, {Outcome::not_taken, 1}}}},
                            .executed = {{1, 1}, {2, 3}, {3, 3}, {4, 1}}};

TEST(Walk, ALoopAsRecorded) {
  const SassPaths paths =
      walked({{"IADD3", 1}, {"FFMA", 2}, {"BRA", 3, "@P0", 1}, {"STG.E", 4}, {"EXIT", 5}}, loop_of_three);
  EXPECT_EQ(path_of(paths), (Path{0, 1, 2, 1, 2, 1, 2, 3, 4}));
  EXPECT_EQ(paths.unmatched_weight, 0);
}

// ptxas leaves the loop where PTX goes round it.
TEST(Walk, AnInvertedCondition) {
  const SassPaths paths = walked(
      {{"IADD3", 1}, {"FFMA", 2}, {"BRA", 3, "@!P0", 4}, {"BRA", 3, "", 1}, {"STG.E", 4}, {"EXIT", 5}}, loop_of_three);
  EXPECT_EQ(path_of(paths), (Path{0, 1, 2, 3, 1, 2, 3, 1, 2, 4, 5}));
  EXPECT_EQ(paths.unmatched_weight, 0);
}

// A branch whose line is no PTX branch is decided by the counts.
TEST(Walk, ALoopWithoutARecord) {
  PtxWarp warp = loop_of_three;
  warp.branches.clear();
  const SassPaths paths = walked({{"IADD3", 1}, {"FFMA", 2}, {"BRA", 2, "@P0", 1}, {"STG.E", 4}, {"EXIT", 5}}, warp);
  EXPECT_EQ(path_of(paths), (Path{0, 1, 2, 1, 2, 1, 2, 3, 4}));
}

TEST(Walk, AGuardedExitEndsOrGoesOn) {
  const std::vector<Row> rows{{"IADD3", 1}, {"EXIT", 2, "@P0"}, {"FFMA", 3}, {"EXIT", 4}};
  const PtxWarp goes_on{.branches = {{2, {{Outcome::not_taken, 1}}}}, .executed = {{1, 1}, {2, 1}, {3, 1}}};
  const PtxWarp ends{.branches = {{2, {{Outcome::taken, 1}}}}, .executed = {{1, 1}, {2, 1}}};
  EXPECT_EQ(path_of(walked(rows, goes_on)), (Path{0, 1, 2, 3}));
  EXPECT_EQ(path_of(walked(rows, ends)), (Path{0, 1}));
}

// BSSY, @P0 BRA else, then-side, BRA meet; else-side; meet: BSYNC.
const std::vector<Row> if_else{
    {"IADD3", 1}, {"BSSY", 2, "", 7, "B0"},   {"BRA", 2, "@P0", 5}, {"FFMA", 3}, {"BRA", 4, "", 6},
    {"FMUL", 5},  {"BSYNC", 2, "", -1, "B0"}, {"STG.E", 6},         {"EXIT", 7}};

TEST(Walk, LanesThatPartRunBothSidesToTheirMeeting) {
  const PtxWarp parts{.branches = {{2, {{Outcome::both, 1}}}}, .executed = {{1, 1}, {2, 1}, {3, 1}, {5, 1}, {6, 1}}};
  EXPECT_EQ(path_of(walked(if_else, parts)), (Path{0, 1, 2, 3, 4, 6, 5, 6, 7, 8}));
  const PtxWarp together{.branches = {{2, {{Outcome::taken, 1}}}}, .executed = {{1, 1}, {2, 1}, {5, 1}, {6, 1}}};
  EXPECT_EQ(path_of(walked(if_else, together)), (Path{0, 1, 2, 5, 6, 7, 8}));
}

TEST(Walk, ACallComesBack) {
  const std::vector<Row> rows{{"MUFU.RCP", 1}, {"CALL.REL.NOINC", 1, "", 4}, {"STG.E", 2}, {"EXIT", 3},
                              {"FFMA", 1},     {"RET.REL.NODEC", 1}};
  const PtxWarp warp{.branches = {}, .executed = {{1, 1}, {2, 1}}};
  EXPECT_EQ(path_of(walked(rows, warp)), (Path{0, 1, 4, 5, 2, 3}));
}

// Beside a first wrong reading a second wrong one looks better than the right one: the outer loop's skip and the inner
// loop's end are both turned round, and only together are they right.
TEST(Walk, TwoInvertedBranchesAreFoundTogether) {
  const std::vector<Row> rows{{"IADD3", 1},           // 0
                              {"IADD3", 2},           // 1: outer
                              {"BRA", 3, "@P0", 8},   // 2: skips the inner loop
                              {"FFMA", 4},            // 3: inner
                              {"FFMA", 14},           // 4
                              {"FFMA", 24},           // 5
                              {"BRA", 5, "@P1", 8},   // 6: leaves it
                              {"BRA", 5, "", 3},      // 7
                              {"IADD3", 6},           // 8
                              {"BRA", 7, "@P2", 11},  // 9: leaves the outer
                              {"BRA", 7, "", 1},      // 10
                              {"STG.E", 8},          {"EXIT", 9}};
  const PtxWarp warp{.branches = {{3, {{Outcome::taken, 1}, {Outcome::not_taken, 1}, {Outcome::taken, 1}}},
                                  {5, {{Outcome::taken, 2}, {Outcome::not_taken, 1}}},
                                  {7, {{Outcome::taken, 2}, {Outcome::not_taken, 1}}}},
                     .executed = {{1, 1}, {2, 3}, {3, 3}, {4, 3}, {14, 3}, {24, 3}, {5, 3}, {6, 3}, {7, 3}, {8, 1}}};
  const SassPaths paths = walked(rows, warp);
  EXPECT_EQ(paths.unmatched_weight, 0);
  EXPECT_EQ(path_of(paths),
            (Path{0, 1, 2, 8, 9, 10, 1, 2, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4, 5, 6, 8, 9, 10, 1, 2, 8, 9, 11, 12}));
}

// A block whose lines ran more often than any way through the SASS can run it.
TEST(Walk, WhatDoesNotFitIsWeighed) {
  const PtxWarp warp{.branches = {}, .executed = {{1, 1}, {2, 3}}};
  const SassPaths paths = walked({{"IADD3", 1}, {"BSSY", 1, "", 3, "B0"}, {"FFMA", 2}, {"EXIT", 3}}, warp);
  ASSERT_EQ(paths.unmatched.size(), 1u);
  EXPECT_EQ(paths.unmatched[0].first, 2u);
  EXPECT_EQ(paths.unmatched[0].walked, 1);
  EXPECT_EQ(paths.unmatched[0].voted, 3);
  EXPECT_GT(paths.unmatched_weight, most_unmatched_weight);
}

// Ten rounds of a PTX loop, twice: two passes of four rounds each, then two rounds of what is left over.
TEST(Walk, AnUnrolledLoopAndItsRest) {
  const std::vector<Row> rows{{"IADD3", 1},          // 0: outer
                              {"LDS", 2},            // 1: four rounds a pass
                              {"LDS", 2},            // 2
                              {"LDS", 2},            // 3
                              {"LDS", 2},            // 4
                              {"BRA", 3, "@P0", 1},  // 5
                              {"LDS", 2},            // 6: one
                              {"BRA", 3, "@P1", 6},  // 7
                              {"IADD3", 4},          // 8
                              {"BRA", 5, "@P2", 0},  // 9
                              {"EXIT", 6}};
  const PtxWarp warp{
      .branches = {{3, {{Outcome::taken, 9}, {Outcome::not_taken, 1}, {Outcome::taken, 9}, {Outcome::not_taken, 1}}},
                   {5, {{Outcome::taken, 1}, {Outcome::not_taken, 1}}}},
      .executed = {{1, 2}, {2, 20}, {3, 20}, {4, 2}, {5, 2}}};
  const SassPaths paths = walked(rows, warp);
  const Path pass{1, 2, 3, 4, 5}, rest{6, 7};
  Path expected;
  const auto add = [&](const Path& part) { expected.insert(expected.end(), part.begin(), part.end()); };
  for (int outer = 0; outer < 2; ++outer) {
    add({0});
    add(pass);
    add(pass);
    add(rest);
    add(rest);
    add({8, 9});
  }
  add({10});
  EXPECT_EQ(path_of(paths), expected);
  EXPECT_EQ(paths.unmatched_weight, 0);
}

// The rare case of a division is a subroutine, whose lines are no one's, and did not run.
TEST(Walk, ARareCaseThatDidNotRunIsNotMissed) {
  const std::vector<Row> rows{{"LOP3.LUT", 1},   {"BRA", 1, "@P1", 4}, {"CALL.REL.NOINC", 1, "", 7},
                              {"BRA", 1, "", 5}, {"MUFU.RCP", 1},      {"STG.E", 2},
                              {"EXIT", 3},       {"FMUL", 2},          {"RET.REL.NODEC", 3}};
  const SassPaths paths = walked(rows, {.branches = {}, .executed = {{1, 1}, {2, 1}}});
  EXPECT_EQ(path_of(paths), (Path{0, 1, 4, 5, 6}));
  EXPECT_EQ(paths.unmatched_weight, 0);
}

// PTX computes before the branch what only one side of it uses; ptxas computes it there. A load would not have moved.
TEST(Walk, ArithmeticThatWasSunkBehindABranchIsNotMissed) {
  const PtxWarp warp{.branches = {{3, {{Outcome::taken, 1}}}},
                     .executed = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {7, 1}, {8, 1}}};
  const auto rows = [](const char* sunk) {
    return std::vector<Row>{{"IADD3", 1}, {"BRA", 3, "@P0", 4}, {sunk, 2},    {"BRA", 9, "", 7}, {"LDG.E", 4},
                            {"FADD", 7},  {"FMUL", 8},          {"STG.E", 5}, {"EXIT", 6}};
  };
  EXPECT_EQ(path_of(walked(rows("IMNMX"), warp)), (Path{0, 1, 4, 5, 6, 7, 8}));
  EXPECT_EQ(walked(rows("IMNMX"), warp).unmatched_weight, 0);
  EXPECT_GT(walked(rows("LDS"), warp).unmatched_weight, most_unmatched_weight);
}

TEST(Walk, AWayWithoutAnEndIsRefused) {
  const PtxWarp warp{.branches = {}, .executed = {{1, 1}}};
  EXPECT_FALSE(sass_paths(kernel_of({{"IADD3", 1}, {"BRA", 1, "", 0}}), run_of(warp)));
  EXPECT_FALSE(sass_paths(kernel_of({{"IADD3", 0}, {"EXIT", 0}}), run_of(warp)));
  EXPECT_FALSE(sass_paths(kernel_of({{"IADD3", 1}, {"EXIT", 1}}), PtxRun{}));
}

TEST(Walk, MemoryOfALineIsThatOfItsInstructions) {
  const PtxWarp warp{.branches = {}, .executed = {{1, 4}, {2, 4}, {3, 4}}};
  PtxRun run = run_of(warp);
  run.lines[1] = {.executed = 4, .global_requests = 4, .global_sectors = 64, .global_lines = 16};
  run.lines[2] = {.executed = 4, .shared_requests = 4, .shared_wavefronts = 32};
  const auto paths = sass_paths(
      kernel_of({{"LDG.E.128", 1}, {"LDS.64", 2}, {"LDS.64", 2}, {"FADD", 2}, {"LDG.E", 3}, {"EXIT", 4}}), run);
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->memory[0].wavefronts, 4);
  EXPECT_EQ(paths->memory[0].l2_bytes, 512);
  EXPECT_EQ(paths->memory[1].wavefronts, 4);  // two instructions share the line's eight
  EXPECT_EQ(paths->memory[2].wavefronts, 4);
  EXPECT_EQ(paths->memory[3].wavefronts, -1);
  EXPECT_EQ(paths->memory[4].l2_bytes, -1);
}

TEST(Blocks, WhatNoWholeWarpRunsIsNotReachable) {
  const SassKernel kernel =
      kernel_of({{"BRA.DIV", 1, "", 3}, {"SHFL", 1}, {"EXIT", 2}, {"WARPSYNC", 1}, {"SHFL", 1}, {"BRA", 1, "", 2}});
  const auto blocks = blocks_of(kernel);
  const Votes votes(kernel, blocks, line_copies(kernel, blocks), {.branches = {}, .executed = {{1, 1}}});
  EXPECT_EQ(votes.alone(0), 1);
  EXPECT_FALSE(votes.speaker_of(static_cast<std::uint32_t>(blocks.size()) - 1));
}

}  // namespace
}  // namespace flashmoe::predict
