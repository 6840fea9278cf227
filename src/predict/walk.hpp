// From the way that warps went through PTX to the way they go through the SASS that ptxas made of it.
//
// Every SASS instruction names the PTX line it was made of. So a block of SASS ran as often as most of its lines did:
// its vote. A warp walks from block to block: at a branch that was made of a PTX branch it takes what that branch did
// next; ptxas may have turned the condition round, or may have rotated or unrolled the loop, so each branch is read in
// the way in which the walk meets the votes best: as recorded, inverted, or by the votes alone. Lanes that part run one
// side after the other, up to the BSYNC that closes their BSSY.
//
// How far the walk and the votes are apart, in executed instructions, is the unmatched weight.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "predict/path.hpp"
#include "predict/ptx_run.hpp"
#include "predict/sass.hpp"
#include "support/result.hpp"

namespace flashmoe::predict {

// A block that was walked more or less often than its lines say.
struct Unmatched {
  std::uint32_t first = 0, end = 0;  // instructions
  double walked = 0, voted = 0;      // by all warps of the walk
};

struct SassPaths {
  std::vector<CtaPath> ctas{};         // as PtxRun::ctas
  MemoryShapes memory{};               // by instruction, over the whole launch
  double unmatched_weight = 0;         // 0: every block ran as often as its lines say
  std::vector<Unmatched> unmatched{};  // the weightiest first
};

// Above this a prediction says so.
inline constexpr double most_unmatched_weight = 0.02;

// Refuses SASS without lines of PTX, runs without paths, and warps that go on for ever.
[[nodiscard]] Result<SassPaths> sass_paths(const SassKernel& kernel, const PtxRun& run);

}  // namespace flashmoe::predict
