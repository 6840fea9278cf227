// Who runs when.
#pragma once

#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

// CTAs on all host threads, in whatever order they come.
[[nodiscard]] std::uint64_t run_fast(Grid& grid, std::uint64_t resident, int host_threads);
// One host thread; which warp runs next depends on the seed only.
[[nodiscard]] std::uint64_t run_in_order(Grid& grid, std::uint64_t resident);

}  // namespace flashmoe::vgpu::exec
