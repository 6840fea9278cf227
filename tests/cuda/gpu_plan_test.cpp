// The starting case and decode on a virtual L4: what the planner makes of them with the occupancy of the real kernels,
// and that the launch is what the plan says.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "cuda/gpu_run.hpp"
#include "images/fatbin.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& plan_gpu() {
  static const Gpu only;
  return only;
}

std::string explained(const fms_attention_plan& plan) {
  std::string text(fms_plan_explain(&plan, nullptr, 0), '\0');
  fms_plan_explain(&plan, text.data(), text.size() + 1);
  return text;
}

struct Launched {
  fms_attention_plan plan;
  nlohmann::json report;
  [[nodiscard]] int64_t ctas() const {
    const auto& grid = report.at("grid");
    return grid.at(0).get<int64_t>() * grid.at(1).get<int64_t>() * grid.at(2).get<int64_t>();
  }
};

// N(0,1) from a table: making 67 million of them would take longer than the run.
AttentionCase many_values(const fms_attention_problem& problem) {
  Random random(3);
  std::vector<double> table(8191);
  for (double& value : table) value = random.normal();
  std::size_t next = 0;
  return AttentionCase(problem, {}, [&](Tensor) {
    next = next + 1 == table.size() ? 0 : next + 1;
    return table[next];
  });
}

// Runs it, holds it against the oracle, and the launch against the plan.
Launched launched(const Shape& shape, int32_t splits = 0, int32_t q_tile = 0) {
  static_cast<void>(plan_gpu().reports());
  AttentionCase one = many_values(simple_problem(FMS_F16, shape));
  const fms_plan_options options = plan_options(0, splits, q_tile);
  const RunResult result = plan_gpu().run(one, &options);
  if (result.status != FMS_OK) throw std::runtime_error(to_string(result.error));
  EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << one.describe();
  const auto reports = plan_gpu().reports();
  if (reports.size() != 1) throw std::runtime_error(std::to_string(reports.size()) + " launches");
  Launched done{result.plan, nlohmann::json::parse(reports.front())};
  EXPECT_TRUE(done.report.at("findings").empty()) << done.report.at("findings").dump();
  EXPECT_EQ(done.ctas(), done.plan.work_items);
  EXPECT_EQ(done.report.at("ctas_per_sm"), done.plan.ctas_per_sm);
  EXPECT_EQ(done.report.at("spill_store_bytes"), 0);
  return done;
}

void print(const char* name, const Launched& one) {
  std::cout << "  " << name << ": " << one.ctas() << " CTAs, " << one.report.at("waves").get<double>()
            << " waves (virtual)\n    " << explained(one.plan);
}

TEST(Image, IsTheOneOfTheLibraryThatHoldsThePlansKernel) {
  const fms_attention_problem problem = simple_problem(FMS_F16, {1, 1, 1, 128, 128, 64});
  const fms_plan_options options = plan_options(0, 1, 64);
  fms_attention_plan plan{};
  fms_error error{};
  ASSERT_EQ(fms_attention_plan_make(plan_gpu().context(), &problem, &options, &plan, &error), FMS_OK)
      << to_string(error);
  fms_kernel_image image{};
  image.struct_size = sizeof image;
  ASSERT_EQ(fms_attention_image(plan_gpu().context(), &plan, &image, &error), FMS_OK) << to_string(error);
  EXPECT_EQ(image.kind, FMS_IMAGE_FATBIN);
  EXPECT_STREQ(image.kernel, "forward_f16_d64_large");
  const auto entries = read_fatbin({static_cast<const std::byte*>(image.image), image.bytes});
  ASSERT_TRUE(entries);
  const bool has_ptx = std::ranges::any_of(*entries, [&](const FatbinEntry& one) {
    return one.kind == FatbinEntry::Kind::ptx && one.text().find(image.kernel) != std::string::npos;
  });
  EXPECT_TRUE(has_ptx);
  image.struct_size = 3;
  EXPECT_EQ(fms_attention_image(plan_gpu().context(), &plan, &image, &error), FMS_INVALID_ARGUMENT);
  EXPECT_STREQ(error.argument, "image.struct_size");
}

// examples/attention_naive gives 64 query rows to a CTA.
int64_t naive_ctas(int64_t q_len) {
  std::ifstream file(in_sources("examples/attention_naive/cudadent.toml"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("ceil_div(S, 64)"), std::string::npos) << "the naive kernel has another grid now";
  return (q_len + 63) / 64;
}

TEST(StartingCase, ThePlanHasMoreCtasThanTheNaiveKernelAndSaysWhyNotMore) {
  const Launched one = launched({1, 1, 1, 128, 128, 64});
  std::cout << "  naive: " << naive_ctas(128) << " CTAs\n";
  print("planned", one);
  EXPECT_EQ(naive_ctas(128), 2);
  EXPECT_GE(one.ctas(), 4 * naive_ctas(128));
  EXPECT_NE(explained(one.plan).find("SMs stay idle"), std::string::npos) << explained(one.plan);
}

TEST(StartingCase, SplitsOf8KeysAreRightAndReachTheWholeMachine) {
  print("forced to 8 keys", launched({1, 1, 1, 128, 128, 64}, 16));
  const Launched heads = launched({1, 8, 8, 128, 128, 64}, 16);
  print("8 heads, forced to 8 keys", heads);
  EXPECT_GE(heads.ctas(), 232);
  const Launched longer = launched({1, 1, 1, 512, 512, 64}, 64);
  print("512 keys, forced to 8", longer);
  EXPECT_GE(longer.ctas(), 232);
}

// 8 kv heads have 56 CTAs or 64. With 56 two of 58 SMs have nothing to do, and what the others read is what DRAM can
// bring anyhow (the tile asks for more than its SM's share of it); with 64 six CTAs of a kernel of which an SM holds
// one begin when all others are done. 58, or 232 in four full waves, would be a few more bytes a second for four times
// the states.
TEST(Decode, OneQueryOf32768KeysOccupiesEverySmThatItsHeadsCan) {
  constexpr int64_t sms = 58, heads = 8;
  const Launched one = launched({1, heads, heads, 1, 32768, 64});
  print("decode", one);
  EXPECT_EQ(one.report.at("sms"), sms);
  EXPECT_GE(one.ctas(), sms / heads * heads);
  EXPECT_EQ((one.ctas() + sms - 1) / sms * sms - one.ctas(), sms % heads) << "SMs that a last wave leaves idle";
  // Twice the head size, half the CTAs on an SM; with and without a group of heads.
  for (const int64_t q_heads : {8, 32}) {
    const fms_attention_problem problem = simple_problem(FMS_F16, {1, q_heads, heads, 1, 32768, 128});
    fms_attention_plan plan{};
    fms_error error{};
    ASSERT_EQ(fms_attention_plan_make(plan_gpu().context(), &problem, nullptr, &plan, &error), FMS_OK)
        << to_string(error);
    EXPECT_GE(plan.work_items, sms / heads * heads) << explained(plan);
    EXPECT_LE(plan.work_items % sms == 0 ? 0 : sms - plan.work_items % sms, sms % heads)
        << "the last wave is as good as full: " << explained(plan);
  }
}

}  // namespace
}  // namespace flashmoe::testing
