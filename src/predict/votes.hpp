// How often the blocks of a kernel ran, by the lines of PTX that their instructions were made of.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/blocks.hpp"
#include "predict/ptx_run.hpp"
#include "predict/sass.hpp"

namespace flashmoe::predict {

inline constexpr double no_vote = -1;  // of a block without a line that could tell

// By block; none of those that no way leads to. A line votes for every block that it stands in. Instructions under a
// guard are asked only where there are no others: ptxas turns short branches into guards, and what such a line did is
// not what its block did.
[[nodiscard]] std::vector<double> votes_of(const SassKernel& kernel, const std::vector<Block>& blocks,
                                           const PtxWarp& warp);

}  // namespace flashmoe::predict
