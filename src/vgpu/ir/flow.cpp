#include "vgpu/ir/flow.hpp"

#include <algorithm>

namespace flashmoe::vgpu::ir {
namespace {

using Numbers = std::vector<std::uint32_t>;

// Blocks that can reach one of `exits`, in the order in which a depth-first walk against the edges leaves them: all
// before the ones nearer to the exit.
Numbers reverse_postorder_to(const std::vector<Numbers>& predecessors, const Numbers& exits) {
  Numbers order;
  std::vector<bool> seen(predecessors.size(), false);
  std::vector<std::pair<std::uint32_t, std::size_t>> stack;
  for (const std::uint32_t exit : exits) {
    if (seen[exit]) continue;
    seen[exit] = true;
    stack.emplace_back(exit, 0);
    while (!stack.empty()) {
      auto& [block, next] = stack.back();
      if (next == predecessors[block].size()) {
        order.push_back(block);
        stack.pop_back();
        continue;
      }
      const std::uint32_t before = predecessors[block][next++];
      if (seen[before]) continue;
      seen[before] = true;
      stack.emplace_back(before, 0);
    }
  }
  return order;
}

}  // namespace

std::uint32_t FlowGraph::block_at(std::uint32_t instruction) const {
  const auto after = std::upper_bound(blocks.begin(), blocks.end(), instruction,
                                      [](std::uint32_t at, const BasicBlock& block) { return at < block.first; });
  return static_cast<std::uint32_t>(after - blocks.begin() - 1);
}

FlowGraph build_flow(const FunctionDraft& draft) {
  const auto size = static_cast<std::uint32_t>(draft.code.size());
  std::vector<bool> begins(size + 1, false);
  begins[0] = true;
  for (const std::uint32_t label : draft.labels)
    if (label <= size) begins[label] = true;
  for (std::uint32_t i = 0; i < size; ++i)
    if (draft.code[i].flow != Flow::next) begins[i + 1] = true;

  FlowGraph graph;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (begins[i]) graph.blocks.push_back({i, i, {}});
    graph.blocks.back().end = i + 1;
  }
  for (std::uint32_t b = 0; b < graph.blocks.size(); ++b) {
    BasicBlock& block = graph.blocks[b];
    const Draft& last = draft.code[block.end - 1];
    for (const std::uint32_t label : last.labels) block.successors.push_back(graph.block_at(draft.labels[label]));
    if ((last.flow == Flow::next || last.is_guarded()) && b + 1 < graph.blocks.size())
      block.successors.push_back(b + 1);
    std::sort(block.successors.begin(), block.successors.end());
    block.successors.erase(std::unique(block.successors.begin(), block.successors.end()), block.successors.end());
  }
  return graph;
}

// Cooper, Harvey, Kennedy: "A simple, fast dominance algorithm", on the graph with its edges turned round and one more
// node, the end, behind all exits.
std::vector<std::uint32_t> immediate_post_dominators(const std::vector<Numbers>& successors, const Numbers& exits) {
  const auto count = static_cast<std::uint32_t>(successors.size());
  const std::uint32_t end = count;
  std::vector<Numbers> predecessors(count);
  for (std::uint32_t block = 0; block < count; ++block)
    for (const std::uint32_t next : successors[block]) predecessors[next].push_back(block);
  const Numbers order = reverse_postorder_to(predecessors, exits);
  Numbers rank(count + 1, 0);  // higher: nearer to the end
  for (std::uint32_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  rank[end] = static_cast<std::uint32_t>(order.size());

  Numbers dominator(count + 1, no_slot);
  dominator[end] = end;
  const auto meet = [&](std::uint32_t a, std::uint32_t b) {
    while (a != b) {
      while (rank[a] < rank[b]) a = dominator[a];
      while (rank[b] < rank[a]) b = dominator[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block = order.rbegin(); block != order.rend(); ++block) {
      const bool is_exit = std::find(exits.begin(), exits.end(), *block) != exits.end();
      std::uint32_t nearest = is_exit ? end : no_slot;
      for (const std::uint32_t next : successors[*block])
        if (dominator[next] != no_slot) nearest = nearest == no_slot ? next : meet(nearest, next);
      if (nearest == dominator[*block]) continue;
      dominator[*block] = nearest;
      changed = true;
    }
  }
  dominator.pop_back();
  for (std::uint32_t& block : dominator)
    if (block == end) block = no_slot;
  return dominator;
}

std::vector<std::uint32_t> meeting_blocks(const FlowGraph& graph, const FunctionDraft& draft) {
  const auto count = static_cast<std::uint32_t>(graph.blocks.size());
  std::vector<Numbers> successors;
  for (const BasicBlock& block : graph.blocks) successors.push_back(block.successors);
  const auto ends_with = [&](std::uint32_t block, Flow flow) {
    return draft.code[graph.blocks[block].end - 1].flow == flow;
  };
  // Lanes that exit, trap or return early are gone: the rest need not wait for them, so only the last return counts as
  // the end. What cannot reach it (code that always traps, loops for ever) is judged by its own way out.
  Numbers dominators(count, no_slot);
  std::vector<bool> is_known(count, false);
  for (int round = 0;; ++round) {
    Numbers exits;
    for (std::uint32_t block = 0; block < count; ++block) {
      if (is_known[block]) continue;
      const bool is_way_out = round == 0   ? ends_with(block, Flow::returns) && successors[block].empty()
                              : round == 1 ? ends_with(block, Flow::returns) || ends_with(block, Flow::stops)
                                           : true;
      if (!is_way_out) continue;
      if (round != 1) exits.clear();
      exits.push_back(block);
    }
    if (exits.empty() && round < 2) continue;
    if (exits.empty()) break;
    const Numbers found = immediate_post_dominators(successors, exits);
    std::vector<Numbers> predecessors(count);
    for (std::uint32_t block = 0; block < count; ++block)
      for (const std::uint32_t next : successors[block]) predecessors[next].push_back(block);
    for (const std::uint32_t block : reverse_postorder_to(predecessors, exits)) {
      if (is_known[block]) continue;
      is_known[block] = true;
      dominators[block] = found[block];
    }
  }
  for (std::uint32_t block = 0; block < count; ++block) {
    const Draft& last = draft.code[graph.blocks[block].end - 1];
    const bool parts = (last.flow == Flow::table || last.flow == Flow::branch) && successors[block].size() > 1 &&
                       !last.info.form.has("uni");
    if (!parts) dominators[block] = no_slot;
  }
  return dominators;
}

}  // namespace flashmoe::vgpu::ir
