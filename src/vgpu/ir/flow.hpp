// Basic blocks of a draft, and where lanes that part at a branch meet again.
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/ir/draft.hpp"

namespace flashmoe::vgpu::ir {

struct BasicBlock {
  std::uint32_t first = 0, end = 0;  // of the code
  std::vector<std::uint32_t> successors{};
};

struct FlowGraph {
  std::vector<BasicBlock> blocks{};  // in the order of the code
  [[nodiscard]] std::uint32_t block_at(std::uint32_t instruction) const;
};
[[nodiscard]] FlowGraph build_flow(const FunctionDraft& draft);

// Immediate post-dominators of a graph that is left at `exits`; no_slot: none but the end, or no way to it.
[[nodiscard]] std::vector<std::uint32_t> immediate_post_dominators(
    const std::vector<std::vector<std::uint32_t>>& successors, const std::vector<std::uint32_t>& exits);

// The block at which the lanes that part at the end of each block meet; no_slot: they do not part, or never meet.
[[nodiscard]] std::vector<std::uint32_t> meeting_blocks(const FlowGraph& graph, const FunctionDraft& draft);

}  // namespace flashmoe::vgpu::ir
