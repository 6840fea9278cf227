// Which instructions a CTA executes, and what its memory instructions move: the input of the simulation.
#pragma once

#include <cstdint>
#include <vector>

namespace flashmoe::predict {

// Indices into SassKernel::instructions, in the order executed. What a guard switches off has still been issued.
struct WarpPath {
  std::vector<std::uint32_t> instructions{};

  friend bool operator==(const WarpPath&, const WarpPath&) = default;
};

struct CtaPath {
  std::vector<WarpPath> warps{};

  [[nodiscard]] std::uint64_t instructions() const {
    std::uint64_t sum = 0;
    for (const WarpPath& warp : warps) sum += warp.instructions.size();
    return sum;
  }
};

// Of one instruction, the mean of its executions as the virtual GPU counted them. Negative: unknown, and taken from the
// instruction's width as if all 32 lanes took part, without conflicts and each byte from L2.
struct MemoryShape {
  double wavefronts = -1;  // passes over the banks of shared memory, or over lines of the L1 cache
  double l2_bytes = -1;    // of the 32-byte sectors that go to L2 or come from it
};
using MemoryShapes = std::vector<MemoryShape>;  // by instruction; empty: all unknown

}  // namespace flashmoe::predict
