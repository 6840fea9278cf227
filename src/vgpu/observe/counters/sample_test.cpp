#include "vgpu/observe/counters/sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "vgpu/exec/run_ptx.hpp"
#include "vgpu/observe/counters/report.hpp"
#include "vgpu/observe/watch.hpp"

namespace flashmoe::vgpu::observe::sampling {
namespace {

constexpr std::uint32_t ctas = 997, threads = 64;  // a prime: no stretch divides it

// Every thread writes one word; shared stores at stride 2 meet in banks.
const std::string uniform = exec::prologue() + R"(
  .shared .align 16 .b8 buffer[1024];
  mov.u32 %r10, buffer;
  shl.b32 %r11, %r1, 3;
  add.u32 %r10, %r10, %r11;
  st.shared.u32 [%r10], %r5;
  bar.sync 0;
  ld.shared.u32 %r12, [%r10];
  st.global.u32 [%rd2], %r12;
  ret;
)";

// A round for every 16 CTAs before it, each with a load; odd lanes leave every round early.
const std::string triangle = exec::prologue() + R"(
  mov.u32 %r10, 0;
  mov.u32 %r13, 0;
  shr.u32 %r15, %r2, 4;
  and.b32 %r14, %r1, 1;
  setp.ne.u32 %p2, %r14, 0;
LOOP:
  setp.ge.u32 %p1, %r10, %r15;
  @%p1 bra DONE;
  add.u32 %r10, %r10, 1;
  @%p2 bra LOOP;
  ld.global.u32 %r12, [%rd1];
  add.u32 %r13, %r13, %r12;
  bra LOOP;
DONE:
  st.global.u32 [%rd2], %r10;
  ret;
)";

// One CTA of all goes round 20,000 times.
const std::string one_heavy = exec::prologue() + R"(
  mov.u32 %r10, 0;
  setp.ne.u32 %p2, %r2, 500;
  @%p2 bra DONE;
LOOP:
  add.u32 %r10, %r10, 1;
  setp.lt.u32 %p1, %r10, 20000;
  @%p1 bra LOOP;
DONE:
  st.global.u32 [%rd2], %r10;
  ret;
)";

// The last CTA of all to come sums up what the others left.
const std::string last_reduces = exec::prologue() + R"(
  .reg .u32 %old;
  atom.global.add.u32 %old, [%rd1], 1;
  setp.ne.u32 %p1, %old, 63807;
  @%p1 bra DONE;
  st.global.u32 [%rd1+4], %old;
DONE:
  ret;
)";

struct Ran {
  LaunchCounts counts{};
  Report report{};
  std::vector<std::uint32_t> values{};
};

Ran run(const std::string& text, std::optional<SampleSize> size, std::uint64_t seed = 0) {
  exec::PtxRunner runner(text, exec::Mode::observed, std::uint64_t{4} * ctas * threads);
  Watch watch({.memcheck = false, .initcheck = false, .racecheck = false, .synccheck = false, .sample = size});
  runner.launch.observer = &watch;
  runner.launch.schedule.seed = seed;
  const exec::Outcome outcome = runner.run(ctas, threads);
  EXPECT_EQ(outcome.fault.kind, exec::Fault::Kind::none) << outcome.fault.message;
  return {watch.counts(), make_report(runner.kernel, watch.counts(), l4_shape(), {}),
          runner.values(std::size_t{ctas} * threads)};
}

SampleSize size(const char* text) {
  return *SampleSize::parse(text);
}

double metric(const Ran& ran, const char* name) {
  const Metric* const found = ran.report.find(name);
  return found == nullptr ? -1 : found->value;
}

TEST(SampleSize, CtasOrPercent) {
  EXPECT_EQ(size("64").of(4096), 64u);
  EXPECT_EQ(size("63").of(4096), 64u);  // in pairs
  EXPECT_EQ(size("5%").of(1000), 50u);
  EXPECT_EQ(size("0.01%").of(1000), 2u);
  EXPECT_EQ(size("64").of(50), 50u);
  EXPECT_EQ(size("100%").of(51), 51u);
  for (const char* const text : {"", "%", "0", "-3", "2.5", "101%", "5 %", "many"})
    EXPECT_FALSE(SampleSize::parse(text)) << text;
}

TEST(CtaSample, StandsForAllOfThem) {
  for (std::uint64_t chosen = 2; chosen < 64; chosen += 2) {
    for (const std::uint64_t of : {std::uint64_t{65}, std::uint64_t{997}, std::uint64_t{1} << 32U}) {
      const CtaSample sample(of, chosen, 7);
      std::set<std::uint64_t> places;
      std::uint64_t sum = 0;
      for (const CtaSample::Chosen& one : sample.chosen()) {
        places.insert(one.cta);
        sum += one.stands_for;
      }
      EXPECT_EQ(places.size(), chosen);
      EXPECT_LT(*places.rbegin(), of);
      EXPECT_EQ(sum, of);
    }
  }
}

TEST(CtaSample, FollowsItsSeed) {
  const auto places = [](std::uint64_t seed) {
    std::vector<std::uint64_t> list;
    const CtaSample sample(997, 32, seed);
    for (const CtaSample::Chosen& one : sample.chosen()) list.push_back(one.cta);
    return list;
  };
  EXPECT_EQ(places(3), places(3));
  EXPECT_NE(places(3), places(4));
}

TEST(CtaSample, ErrorOfAPairByHand) {
  CtaSample sample(10, 2, 1);  // two of ten; they did 4 and 10
  sample.find(sample.chosen()[0].cta)->counts.instructions = 4;
  sample.find(sample.chosen()[1].cta)->counts.instructions = 10;
  EXPECT_EQ(sample.sum(&CtaCounts::instructions), 70u);
  // Variance of what they did: 18. Of the sum of ten from two: 10 * 10 * (1 - 2 / 10) * 18 / 2 = 720.
  EXPECT_DOUBLE_EQ(sample.standard_error(&CtaCounts::instructions), std::sqrt(720.0));
}

TEST(SampledCounters, OfEqualCtasAreThoseOfAll) {
  const Ran whole = run(uniform, {}), some = run(uniform, size("2%"));
  ASSERT_TRUE(some.counts.sample);
  EXPECT_EQ(some.counts.sample->chosen().size(), 20u);
  EXPECT_EQ(some.values, whole.values);  // every CTA ran
  for (std::size_t pc = 0; pc < whole.counts.instructions.size(); ++pc) {
    EXPECT_EQ(some.counts.instructions[pc].warps, whole.counts.instructions[pc].warps) << pc;
    EXPECT_EQ(some.counts.instructions[pc].threads, whole.counts.instructions[pc].threads) << pc;
  }
  for (const Metric& one : some.report.metrics) EXPECT_EQ(one.value, metric(whole, one.name.c_str())) << one.name;
  EXPECT_GT(metric(some, "vgpu__shared_bank_conflicts.sum"), 0);
  EXPECT_EQ(some.counts.sample->standard_error(&CtaCounts::instructions), 0);
  EXPECT_EQ(some.counts.sampled_over_executed, 1);
}

TEST(SampledCounters, OfATriangleAreWithinTheirError) {
  const Ran whole = run(triangle, {});
  int beyond_two = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Ran some = run(triangle, size("64"), seed);
    const CtaSample& sample = *some.counts.sample;
    const auto check = [&](const char* name, std::uint64_t CtaCounts::*of) {
      const double error = std::abs(metric(some, name) - metric(whole, name)), told = sample.standard_error(of);
      EXPECT_GT(told, 0) << name;
      EXPECT_LE(told, 0.02 * metric(whole, name)) << name;  // neighbours do nearly the same
      EXPECT_LE(error, 4 * told) << name << ", seed " << seed;
      beyond_two += error > 2 * told ? 1 : 0;
    };
    check("vgpu__ptx_inst_executed.sum", &CtaCounts::instructions);
    check("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", &CtaCounts::global_sectors);
    EXPECT_NEAR(some.counts.sampled_over_executed,
                metric(some, "vgpu__ptx_inst_executed.sum") / metric(whole, "vgpu__ptx_inst_executed.sum"), 0.001);
  }
  EXPECT_LE(beyond_two, 6);  // of 40; 2 are to be expected
}

TEST(SampledCounters, SameSeedSameCounts) {
  const Ran one = run(triangle, size("16"), 5), again = run(triangle, size("16"), 5);
  EXPECT_EQ(one.report.to_json(), again.report.to_json());
  EXPECT_NE(one.report.to_json(), run(triangle, size("16"), 6).report.to_json());
}

// No error can tell of what was not drawn; the instructions of all CTAs do.
TEST(SampledCounters, AHeavyCtaThatWasMissedShows) {
  int missed = 0;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const Ran some = run(one_heavy, size("16"), seed);
    if (some.counts.sample->holds(500)) continue;
    ++missed;
    EXPECT_EQ(some.counts.sample->standard_error(&CtaCounts::instructions), 0);
    EXPECT_LT(some.counts.sampled_over_executed, 0.5);
  }
  EXPECT_GT(missed, 0);
}

TEST(SampledCounters, CtasThatWaitForEachOtherAllRun) {
  const Ran some = run(last_reduces, size("8"));
  EXPECT_EQ(some.values[0], ctas * threads);
  EXPECT_EQ(some.values[1], ctas * threads - 1);
}

TEST(SampledCounters, AreLabelled) {
  const Ran some = run(uniform, size("8"));
  for (const char* const name : {"vgpu__ptx_inst_executed.sum", "vgpu__shared_bank_conflicts.sum",
                                 "vgpu__working_ctas.sum", "vgpu__coalescing_efficiency.pct"})
    EXPECT_EQ(some.report.find(name)->trust, Trust::sampled) << name;
  EXPECT_EQ(some.report.find("launch__grid_size")->trust, Trust::exact);
  const auto json = some.report.to_json();
  EXPECT_EQ(json["sample"]["ctas"], 8);
  EXPECT_EQ(json["sample"]["of"], ctas);
  std::set<std::string> missing;
  for (const auto& one : json["missing"]) missing.insert(one["name"]);
  for (const char* const name : {"vgpu__dram_bytes_read.sum", "vgpu__l2_bytes_read.sum", "vgpu__ptx_inst_executed.max",
                                 "working_sms", "largest_cta_over_mean"})
    EXPECT_TRUE(missing.contains(name)) << name;
  EXPECT_FALSE(json.contains("working_sms"));
  EXPECT_EQ(some.report.find("vgpu__dram_bytes_read.sum"), nullptr);
  EXPECT_NE(summary(some.report).find("8 of 997 CTAs"), std::string::npos);
  EXPECT_NE(annotated_source(some.report, "k.cu", "").find("sampled: 8 of 997 CTAs, seed 0, scaled"),
            std::string::npos);
}

TEST(SampledCounters, OfAllCtasAreExact) {
  const Ran all = run(uniform, size("100%"));
  EXPECT_FALSE(all.counts.sample);
  EXPECT_EQ(all.report.find("vgpu__ptx_inst_executed.sum")->trust, Trust::exact);
  EXPECT_NE(all.report.find("vgpu__dram_bytes_read.sum"), nullptr);
}

}  // namespace
}  // namespace flashmoe::vgpu::observe::sampling
