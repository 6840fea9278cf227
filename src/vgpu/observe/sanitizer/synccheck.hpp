// Barriers, masks and waits that cannot mean what they say. Exec notices them; this puts them into words.
#pragma once

#include <string_view>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"

namespace flashmoe::vgpu::observe {

// Lanes of a warp that came to a barrier before the others. Alone that is no mistake: a lane that spins lets its
// siblings go ahead, and comes later. It is one when the barrier completes, or the block ends, without the rest.
struct PartialArrival {
  std::uint32_t arrived = 0, expected = 0;  // lanes; expected 0: none is open
  std::uint32_t passed_by = 0;              // lanes that use shared memory meanwhile
  std::uint32_t number = 0, pc = 0;
};

class Synccheck {
 public:
  explicit Synccheck(FindingLog& log) : log_(log) {}
  void problem(const exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail);

  void arrives(const exec::Warp& warp, std::uint32_t number, std::uint32_t lanes, PartialArrival& open);
  void completes(const exec::Warp& warp, std::uint32_t number, PartialArrival& open);
  void ends(const exec::Warp& warp, PartialArrival& open);

 private:
  FindingLog& log_;
};

}  // namespace flashmoe::vgpu::observe
