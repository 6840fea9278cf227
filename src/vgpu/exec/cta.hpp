// CTAs come and go while a grid runs; their memory is used again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

// CTA number `linear` of the grid, ready to run, in the memory of `used` when there is one.
[[nodiscard]] std::unique_ptr<Cta> begin_cta(Grid& grid, std::uint64_t linear, std::uint32_t sm,
                                             std::unique_ptr<Cta> used);

// Runs the warp until its slice ends, it waits or it has exited. Slices and budgets count steps, reports instructions.
struct Ran {
  std::uint64_t steps = 0, instructions = 0;
};
Ran run_warp(Warp& warp, std::uint64_t slice);

// The launch has had its instructions: the warp is where it hangs.
void raise_timeout(Warp& warp);
// All warps that live wait at barriers that cannot complete: raised.
void raise_deadlock(Cta& cta);

}  // namespace flashmoe::vgpu::exec
