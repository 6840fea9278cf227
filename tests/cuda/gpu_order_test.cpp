// The order in which CTAs begin, of launches without a list: every tile and split of every head is taken once, its
// splits share a counter, and with a mask the longest tiles of all heads come first where L2 has room for that, in turn
// over the SMs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "cuda/gpu_run.hpp"
#include "cuda/handed_out_items.hpp"
#include "support/judge.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

const Gpu& order_gpu() {
  static const Gpu only = [] {
    setenv("VGPU_PTXAS", "off", 0);  // an SM holds what registers do not limit
    return Gpu();
  }();
  return only;
}

// Two sequences of three kv heads, four tiles each: the last one is not full.
struct Ordered {
  static constexpr int heads = 6, tiles = 4;
  static constexpr double much_l2_bytes = 1e9, no_l2_bytes = 0;
  fms_attention_problem problem;
  int32_t kv_splits, q_tile;

  Ordered(int64_t window_left, int64_t window_right, int32_t splits, int32_t rows = 32)
      : problem(simple_problem(FMS_F16, {2, 6, 3, 60 * rows / 32, 300, 64})), kv_splits(splits), q_tile(rows) {
    problem.window_left = window_left;
    problem.window_right = window_right;
  }
  [[nodiscard]] fms_plan_options options() const { return plan_options(0, kv_splits, q_tile); }
  [[nodiscard]] fms_attention_plan plan() const {
    const fms_plan_options forced = options();
    fms_attention_plan made{};
    fms_error error{};
    if (fms_attention_plan_make(order_gpu().context(), &problem, &forced, &made, &error) != FMS_OK)
      throw std::runtime_error(to_string(error));
    return made;
  }
  [[nodiscard]] std::vector<Item> items(double l2_resident_bytes) const {
    return handed_out_items(order_gpu(), plan(), {}, l2_resident_bytes);
  }
};

int head_of(const Item& item) {
  return item.sequence * 3 + item.kv_head;
}

void expect_all_once(const std::vector<Item>& items, int splits, int rows = 32) {
  ASSERT_EQ(items.size(), static_cast<std::size_t>(Ordered::heads * Ordered::tiles * splits));
  std::set<std::tuple<int, int, int>> places;
  std::map<int, std::pair<int, int>> owners;  // of counters
  for (const Item& item : items) {
    EXPECT_TRUE(item.sequence >= 0 && item.sequence < 2 && item.kv_head >= 0 && item.kv_head < 3);
    EXPECT_TRUE(item.first_row >= 0 && item.first_row < Ordered::tiles * rows && item.first_row % rows == 0)
        << item.first_row;
    EXPECT_TRUE(item.split >= 0 && item.split < splits) << item.split;
    EXPECT_EQ(item.splits, splits);
    EXPECT_TRUE(places.emplace(head_of(item), item.first_row, item.split).second) << "an item twice";
    const std::pair owner{head_of(item), item.first_row};
    EXPECT_EQ(owners.try_emplace(item.counter, owner).first->second, owner) << "a counter of two tiles";
    EXPECT_TRUE(item.counter >= 0 && item.counter < Ordered::heads * Ordered::tiles) << item.counter;
    EXPECT_EQ(item.states, item.counter * splits);
  }
  EXPECT_EQ(owners.size(), static_cast<std::size_t>(Ordered::heads * Ordered::tiles))
      << "splits of a tile with different counters";
}

// SMs take CTAs in turn, as many as they hold, there and back; the last of these rounds goes there, and so do later
// ones.
TEST(Order, WithAMaskTheLongestTilesOfAllHeadsComeFirstThereAndBackOverTheSms) {
  struct {
    int splits, rows;
  } constexpr cases[] = {{1, 32}, {3, 32}, {6, 32}, {12, 32}, {3, 128}};  // wide tiles compute their place twice
  std::set<std::pair<bool, bool>> kinds;  // whether rounds turn, and whether CTAs come later
  for (const auto& [splits, rows] : cases) {
    for (const int64_t window_left : {-1, 100}) {
      const Ordered ordered(window_left, 0, splits, rows);
      const fms_attention_plan plan = ordered.plan();
      const std::vector<Item> items = ordered.items(Ordered::much_l2_bytes);
      expect_all_once(items, splits, rows);
      const auto sms = static_cast<std::size_t>(plan.sm_count), held = static_cast<std::size_t>(plan.ctas_per_sm);
      const std::size_t rounds = (items.size() + sms - 1) / sms,
                        turns = rounds <= held + 1 ? std::min(rounds, held) : 1;
      kinds.insert({turns > 1, turns < rounds});
      std::vector<Item> falling;
      for (std::size_t round = 0; round < rounds; ++round) {
        const auto begin = items.begin() + static_cast<std::ptrdiff_t>(round * sms);
        const auto end = items.begin() + static_cast<std::ptrdiff_t>(std::min((round + 1) * sms, items.size()));
        std::vector<Item> one(begin, end);
        if (round < turns && (turns - round) % 2 == 0) std::reverse(one.begin(), one.end());
        falling.insert(falling.end(), one.begin(), one.end());
      }
      for (std::size_t i = 1; i < falling.size(); ++i) {
        const Item &before = falling[i - 1], &now = falling[i];
        EXPECT_LT(std::tuple(-before.first_row, before.split, head_of(before)),
                  std::tuple(-now.first_row, now.split, head_of(now)))
            << i;
      }
    }
  }
  EXPECT_EQ(kinds.size(), 4U) << "a kind has no case";
}

TEST(Order, HeadAfterHeadWithoutAMaskOrWithoutRoomInL2) {
  const std::pair<Ordered, double> cases[] = {{{-1, -1, 1}, Ordered::much_l2_bytes},
                                              {{-1, -1, 3}, Ordered::much_l2_bytes},
                                              {{-1, 0, 1}, Ordered::no_l2_bytes},
                                              {{-1, 0, 3}, Ordered::no_l2_bytes}};
  for (const auto& [one, l2_resident_bytes] : cases) {
    const std::vector<Item> items = one.items(l2_resident_bytes);
    expect_all_once(items, one.kv_splits);
    for (std::size_t i = 1; i < items.size(); ++i) {
      const Item &before = items[i - 1], &now = items[i];
      EXPECT_LT(std::tuple(before.split, head_of(before), -before.first_row),
                std::tuple(now.split, head_of(now), -now.first_row));
    }
  }
}

TEST(Order, TheLibraryLaunchesSoAndTheResultIsRight) {
  for (const int splits : {1, 3}) {
    const Ordered causal(-1, 0, splits);
    AttentionCase one = normal_case(causal.problem);
    const fms_plan_options options = causal.options();
    ASSERT_EQ(order_gpu().run(one, &options).status, FMS_OK);
    EXPECT_EQ(judge(one, OracleAnswer(one)).complaint, "") << one.describe();
    const auto reports = order_gpu().reports();
    ASSERT_EQ(reports.size(), 1U);
    const auto report = nlohmann::json::parse(reports.front());
    EXPECT_EQ(report.at("grid"), (nlohmann::json{Ordered::heads, splits, Ordered::tiles}));
    EXPECT_TRUE(report.at("findings").empty()) << report.at("findings").dump();
  }
}

}  // namespace
}  // namespace flashmoe::testing
