// Registers without end -> slots of a frame, by their lifetimes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "vgpu/ir/draft.hpp"
#include "vgpu/ir/flow.hpp"

namespace flashmoe::vgpu::ir {

struct Placement {
  std::vector<std::uint32_t> places{};  // per register: its first slot, or its predicate index; no_slot: never used
  std::uint32_t slots = 0, predicates = 0;
};

// From the first to the last instruction at which each register holds a value that is still needed, both included.
// {no_slot, 0}: never used.
using Lifetime = std::pair<std::uint32_t, std::uint32_t>;
[[nodiscard]] std::vector<Lifetime> lifetimes(const FunctionDraft& draft, const FlowGraph& graph);

[[nodiscard]] Placement place_registers(const FunctionDraft& draft, const FlowGraph& graph);

}  // namespace flashmoe::vgpu::ir
