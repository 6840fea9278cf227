// The bytes a lane is about to store: checks that must know whether two writes differ ask for it, rarely.
#pragma once

#include <array>
#include <cstdint>

#include "vgpu/exec/observer.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::observe {

// For st; false when the instruction is something else.
[[nodiscard]] bool store_value(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, int lane,
                               std::array<std::uint8_t, 32>& bytes);

// Lanes of a store that write what is there already.
[[nodiscard]] std::uint32_t unchanged_lanes(const exec::Warp& warp, const ir::Inst& inst, const exec::Access& access);

}  // namespace flashmoe::vgpu::observe
