#include "vgpu/ir/flow.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace flashmoe::vgpu::ir {
namespace {

using Numbers = std::vector<std::uint32_t>;
using Graph = std::vector<Numbers>;

TEST(PostDominators, Diamond) {
  const Graph graph{{1, 2}, {3}, {3}, {}};
  EXPECT_EQ(immediate_post_dominators(graph, {3}), (Numbers{3, 3, 3, no_slot}));
}

TEST(PostDominators, LoopWithTwoWaysOut) {
  // 0 -> 1 (head) -> 2 -> 1 or 4; 1 -> 3 -> 4
  const Graph graph{{1}, {2, 3}, {1, 4}, {4}, {}};
  EXPECT_EQ(immediate_post_dominators(graph, {4}), (Numbers{1, 4, 4, 4, no_slot}));
}

TEST(PostDominators, TwoExitsMeetAtTheEndOnly) {
  const Graph graph{{1, 2}, {}, {}};
  EXPECT_EQ(immediate_post_dominators(graph, {1, 2}), (Numbers{no_slot, no_slot, no_slot}));
}

// Whether every way from `from` to an exit passes `through`.
bool is_on_every_way(const Graph& graph, const Numbers& exits, std::uint32_t from, std::uint32_t through) {
  std::vector<bool> seen(graph.size(), false);
  Numbers stack{from};
  seen[from] = true;
  while (!stack.empty()) {
    const std::uint32_t block = stack.back();
    stack.pop_back();
    if (block == through) continue;
    if (std::find(exits.begin(), exits.end(), block) != exits.end()) return false;
    for (const std::uint32_t next : graph[block]) {
      if (seen[next]) continue;
      seen[next] = true;
      stack.push_back(next);
    }
  }
  return true;
}

bool reaches(const Graph& graph, const Numbers& exits, std::uint32_t from) {
  return !is_on_every_way(graph, exits, from, no_slot);
}

TEST(PostDominators, AgreeWithTheDefinitionOnRandomGraphs) {
  std::mt19937 random(5);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int round = 0; round < 400; ++round) {
    const std::uint32_t count = 2 + below(9);
    Graph graph(count);
    for (Numbers& successors : graph)
      for (std::uint32_t i = below(3); i > 0; --i) successors.push_back(below(count));
    Numbers exits{count - 1};
    if (below(2) != 0) exits.push_back(below(count));
    const Numbers found = immediate_post_dominators(graph, exits);
    for (std::uint32_t block = 0; block < count; ++block) {
      if (!reaches(graph, exits, block)) {
        EXPECT_EQ(found[block], no_slot);
        continue;
      }
      // The immediate one is passed on every way, and every other such block is passed on every way from it as well.
      std::uint32_t immediate = no_slot;
      for (std::uint32_t other = 0; other < count; ++other) {
        if (other == block || !is_on_every_way(graph, exits, block, other) || !reaches(graph, exits, other)) continue;
        if (immediate == no_slot || is_on_every_way(graph, exits, other, immediate)) immediate = other;
      }
      EXPECT_EQ(found[block], immediate) << "round " << round << " block " << block;
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::ir
