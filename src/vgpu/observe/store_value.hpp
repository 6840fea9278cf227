// The bytes a lane is about to store: checks that must know whether two writes differ ask for it, rarely.
#pragma once

#include <array>
#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::observe {

// For st; false when the instruction is something else.
[[nodiscard]] bool store_value(const exec::Warp& warp, const ir::Inst& inst, std::uint32_t pc, int lane,
                               std::array<std::uint8_t, 32>& bytes);

}  // namespace flashmoe::vgpu::observe
