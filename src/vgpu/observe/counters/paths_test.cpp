#include "vgpu/observe/counters/paths.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe {
namespace {

LaunchPaths paths_of(const std::string& body, std::uint32_t grid, std::uint32_t block, std::uint32_t sms = 4) {
  exec::PtxRunner runner(exec::prologue() + body, exec::Mode::observed);
  Watch watch({.memcheck = false, .initcheck = false, .racecheck = false, .synccheck = false, .paths = true});
  runner.launch.observer = &watch;
  runner.launch.sm_count = sms;
  EXPECT_EQ(runner.run(grid, block).fault.kind, exec::Fault::Kind::none);
  return watch.counts().paths.value();
}

// "t3n b" as the report has it, for the branches of a warp in the order they stand.
std::vector<std::string> outcomes(const WarpPath& warp) {
  std::vector<std::string> all;
  for (const auto& [pc, runs] : warp.branches) {
    std::string& text = all.emplace_back();
    for (const OutcomeRun& run : runs)
      text += std::string(1, "ntb"[static_cast<int>(run.outcome)]) + std::to_string(run.times);
  }
  return all;
}

std::uint64_t executed(const WarpPath& warp, std::uint32_t pc) {
  std::uint64_t times = 0;
  for (const Stretch& one : warp.stretches) times += pc >= one.from && pc <= one.to ? one.times : 0;
  return times;
}

// Block i goes round i + 1 times.
const std::string triangle = R"(
  add.u32 %r10, %r2, 1;
again:
  sub.u32 %r10, %r10, 1;
  setp.ne.u32 %p1, %r10, 0;
  @%p1 bra again;
  st.global.u32 [%rd2], %r10;
  ret;
)";

TEST(Paths, FirstMedianAndHeaviestOfATriangle) {
  const LaunchPaths paths = paths_of(triangle, 9, 64);
  ASSERT_EQ(paths.ctas.size(), 3u);
  EXPECT_EQ(paths.ctas[0].linear, 0u);
  EXPECT_EQ(paths.ctas[1].linear, 4u);
  EXPECT_EQ(paths.ctas[2].linear, 8u);
  EXPECT_TRUE(paths.median_is_exact);
  ASSERT_EQ(paths.ctas[1].warps.size(), 2u);
  EXPECT_EQ(outcomes(paths.ctas[0].warps[0]), std::vector<std::string>{"n1"});
  EXPECT_EQ(outcomes(paths.ctas[1].warps[1]), std::vector<std::string>{"t4n1"});
  EXPECT_EQ(outcomes(paths.ctas[2].warps[0]), std::vector<std::string>{"t8n1"});
  ASSERT_EQ(paths.totals.size(), 9u);
  for (std::size_t i = 1; i < 9; ++i) {  // three instructions a round, in two warps
    EXPECT_EQ(paths.totals[i].instructions, paths.totals[i - 1].instructions + 6);
    EXPECT_EQ(paths.totals[i].global_bytes, 256u);
  }
}

TEST(Paths, StretchesCountEveryInstruction) {
  const LaunchPaths paths = paths_of(triangle, 3, 32);
  const WarpPath& heaviest = paths.ctas.back().warps[0];
  const std::uint32_t branch = heaviest.branches.begin()->first;
  EXPECT_EQ(executed(heaviest, branch), 3u);
  EXPECT_EQ(executed(heaviest, branch - 2), 3u);
  EXPECT_EQ(executed(heaviest, 0), 1u);
  std::uint64_t all = 0;
  for (const Stretch& one : heaviest.stretches) all += one.times;
  EXPECT_EQ(all, 3u);  // the first round with what stands before it, the second, the last with what stands behind it
}

TEST(Paths, LanesThatPartAreBoth) {
  const LaunchPaths paths = paths_of(R"(
  setp.lt.u32 %p1, %r3, 7;
  @%p1 bra low;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r3, 40;
  @%p2 bra meet;
  add.u32 %r5, %r5, 2;
  bra meet;
low:
  add.u32 %r5, %r5, 3;
meet:
  st.global.u32 [%rd2], %r5;
  ret;
)",
                                     1, 32);
  ASSERT_EQ(paths.ctas.size(), 1u);
  EXPECT_EQ(outcomes(paths.ctas[0].warps[0]), (std::vector<std::string>{"b1", "t1"}));
}

// CTAs end in another order on one SM; what is told is the same.
TEST(Paths, DoNotDependOnTheOrderOfCtas) {
  const std::string mirrored = "  sub.u32 %r2, 8, %r2;\n" + triangle;
  const LaunchPaths many = paths_of(mirrored, 9, 32, 4), one = paths_of(mirrored, 9, 32, 1);
  ASSERT_EQ(many.ctas.size(), one.ctas.size());
  for (std::size_t i = 0; i < many.ctas.size(); ++i) {
    EXPECT_EQ(many.ctas[i].linear, one.ctas[i].linear);
    EXPECT_EQ(outcomes(many.ctas[i].warps[0]), outcomes(one.ctas[i].warps[0]));
  }
  EXPECT_EQ(many.totals, one.totals);
  EXPECT_EQ(many.ctas.size(), 2u);  // the first is the heaviest
}

// With room for a few outcomes only, what is kept is thinned out and the median is near the true one.
TEST(Paths, MemoryIsBounded) {
  exec::PtxRunner runner(exec::prologue() + triangle, exec::Mode::observed);
  class Recorder final : public exec::Observer {
   public:
    PathCount count{40};
    void grid_begins(exec::Grid& grid) override { count.launch_begins(*grid.kernel, grid.launch->grid.count()); }
    void before(exec::Warp& warp, const ir::Inst&, std::uint32_t pc) override { count.instruction(warp, pc); }
    void branch(exec::Warp& warp, const ir::Inst&, std::uint32_t pc, std::uint32_t taken,
                std::uint32_t not_taken) override {
      count.branch(warp, pc, taken, not_taken);
    }
    void cta_ends(exec::Cta& cta) override { count.cta_ended(cta); }
  } recorder;
  runner.launch.observer = &recorder;
  EXPECT_EQ(runner.run(101, 32).fault.kind, exec::Fault::Kind::none);
  const LaunchPaths paths = recorder.count.paths();
  ASSERT_EQ(paths.ctas.size(), 3u);
  EXPECT_FALSE(paths.median_is_exact);
  EXPECT_EQ(paths.ctas[0].linear, 0u);
  EXPECT_GT(paths.ctas[1].linear, 20u);
  EXPECT_LT(paths.ctas[1].linear, 80u);
  EXPECT_EQ(paths.ctas[2].linear, 100u);
  EXPECT_EQ(paths.totals.size(), 101u);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe
