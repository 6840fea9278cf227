// One warp's way through the SASS, once it is said how its branches are to be read.
#pragma once

#include <cstdint>
#include <vector>

#include "predict/blocks.hpp"
#include "predict/ptx_run.hpp"
#include "predict/sass.hpp"
#include "predict/votes.hpp"

namespace flashmoe::predict {

// How a conditional branch of the SASS is decided.
enum class Reading : std::uint8_t { recorded, inverted, by_votes };

struct WarpWalk {
  std::vector<std::uint32_t> order{};  // blocks
  std::vector<double> heard{};         // by speaker: how often its line ran
  bool is_complete = true;             // false: it did not come to an end
};

// `readings`: by block, for its branch.
[[nodiscard]] WarpWalk walk_warp(const SassKernel& kernel, const std::vector<Block>& blocks,
                                 const std::vector<Reading>& readings, const PtxWarp& warp, const Votes& votes);

}  // namespace flashmoe::predict
