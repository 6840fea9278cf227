// Shared memory as the load/store unit sees it: 32 banks of 4 bytes; in one wavefront each bank delivers one word, to
// as many lanes as ask for that word. How a request is cut into passes (CUDA C++ Programming Guide, shared memory of
// compute capability 5.x and later; Nsight Compute counts wavefronts the same way):
//   up to 4 bytes a lane   one pass of the whole warp
//   8 bytes a lane         a pass per half warp with a lane in it
//   16 bytes a lane        a pass per quarter warp with a lane in it
//   ldmatrix, stmatrix     a pass per 8x8 matrix: eight rows of 16 bytes
//   cp.async               as a store of its size
//   atomics                as above, but lanes that meet in a word are served one after another
// A pass takes as many wavefronts as its most wanted bank holds different words. Conflicts are the wavefronts beyond
// one a pass. Where a wide access reads the same place in several passes, devices are seen to serve passes together, by
// a rule that no manual gives: `may_be_fewer` says so, and a report then labels the figures derived.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::observe {

struct Wavefronts {
  std::uint32_t total = 0;
  std::uint32_t ideal = 0;  // the number of passes
  bool may_be_fewer = false;
  [[nodiscard]] std::uint32_t conflicts() const { return total - ideal; }
};

enum class SharedKind : std::uint8_t { access, matrix, atomic };

// `address`: [32] offsets in shared memory; `bytes`: per lane, 16 for the rows of a matrix.
[[nodiscard]] Wavefronts shared_wavefronts(std::uint32_t lanes, const std::uint64_t* address, std::uint32_t bytes,
                                           SharedKind kind);

}  // namespace flashmoe::vgpu::observe
