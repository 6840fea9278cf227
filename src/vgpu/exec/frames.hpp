// Activations of functions: their registers, predicates and parameter areas, taken from the warp's own pool.
#pragma once

#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

// A frame of `function` for these lanes, all zero but for its constants. nullptr: too deep (raised).
[[nodiscard]] Frame* enter_frame(Warp& warp, const ir::Function& function, Frame* caller, std::uint32_t lanes);
// The lanes leave `frame` and all its callers: they exit.
void release_frames(Warp& warp, Frame* frame, std::uint32_t lanes);
// The running split goes on in `frame`.
void use_frame(Warp& warp, Frame* frame);

}  // namespace flashmoe::vgpu::exec
