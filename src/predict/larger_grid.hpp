// A launch of any size from a run of a small one: heads, and sequences of a batch, do the same beside one another, so
// that one of them on the virtual GPU stands for all. What a kernel does with a longer sequence no small run tells:
// that one runs in full length.
#pragma once

#include <array>
#include <cstdint>

#include "predict/ptx_run.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

using Grid = std::array<std::int64_t, 3>;

[[nodiscard]] std::int64_t ctas_of(const Grid& grid);

// The run as if it had had the grid `to`: along each axis its CTAs repeat. Refuses a grid that is no multiple of the
// one that ran, and more CTAs than anybody simulates.
[[nodiscard]] Result<PtxRun> with_grid(const PtxRun& run, const Grid& from, const Grid& to);

}  // namespace flashmoe::predict
