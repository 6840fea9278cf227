// A grid that will never end, seen in an observed run: every warp that lives waits at a barrier or goes round a loop
// with the same registers as before, while no byte of memory changes. Nothing is left that could end it: the programs
// are deterministic, and a CTA that has not begun gets its place only when another ends. So it is proven, not guessed,
// and long before an instruction budget is spent. A kernel that reads a clock is left to the budget: the clock ends
// such a loop.
#pragma once

#include "vgpu/exec/addresses.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

[[nodiscard]] bool reads_a_clock(const ir::Kernel& kernel);

// Around an instruction that writes: what stood there before, and whether it changed. Writing what is there already is
// no progress, and neither is a compare-and-swap that fails.
void about_to_write(Grid& grid, const Request& request, const Targets& targets);
void wrote(Grid& grid);

// The warp goes round a loop; called every few rounds.
void look_for_standstill(Warp& warp);

// An asynchronous copy that is under way may land.
[[nodiscard]] inline bool stands_still(const Warp& warp) {
  if (!warp.copies.empty()) {
    return false;
  }
  return warp.state == WarpState::at_barrier || warp.repetition.still_at == warp.cta->grid->changes;
}

// `warp` is one of those that repeat themselves; so many CTAs wait for a place on the device.
void raise_standstill(Warp& warp, std::size_t live_warps, std::uint64_t ctas_not_begun);

}  // namespace flashmoe::vgpu::exec
