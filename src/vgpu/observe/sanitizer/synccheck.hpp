// Barriers, masks and waits that cannot mean what they say. Exec notices them; this puts them into words.
#pragma once

#include <array>
#include <string_view>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"
#include "vgpu/observe/sanitizer/barrier_paths.hpp"

namespace flashmoe::vgpu::observe {

// Lanes of a warp that came to a barrier before the others. Alone that is no mistake: a lane that spins lets its
// siblings go ahead, and comes later. It is one when the barrier completes, or the block ends, without the rest.
struct PartialArrival {
  std::uint32_t arrived = 0, expected = 0;  // lanes; expected 0: none is open
  std::uint32_t passed_by = 0;              // lanes that use shared memory meanwhile, or are behind it
  std::uint32_t number = 0, pc = 0;
};

// Of a warp: where it was last seen, to tell who left early from who went past a barrier.
struct LastAccess {
  LastAccess() { alone.fill(ir::no_slot); }
  std::uint32_t pc = ir::no_slot;         // of any lane's access to memory
  std::array<std::uint32_t, 32> alone{};  // by lane: of one that not all took part in
};

class Synccheck {
 public:
  explicit Synccheck(FindingLog& log) : log_(log) {}
  void problem(const exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail);

  void kernel_begins() { paths_.kernel_begins(); }
  void access(const exec::Warp& warp, const exec::Access& access, LastAccess& last, PartialArrival& open);
  void arrives(const exec::Warp& warp, std::uint32_t number, std::uint32_t lanes, const LastAccess& last,
               PartialArrival& open);
  void completes(const exec::Warp& warp, std::uint32_t number, PartialArrival& open);
  // A barrier of the whole block completes without this warp, which has exited; `waits` is one that came.
  void completes_without(const exec::Warp& gone, const LastAccess& last, const exec::Warp& waits);
  void ends(const exec::Warp& warp, PartialArrival& open);

 private:
  FindingLog& log_;
  BarrierPaths paths_{};
};

}  // namespace flashmoe::vgpu::observe
