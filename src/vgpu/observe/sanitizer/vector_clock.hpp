// What a warp knows of the others' progress. Clocks of its own CTA are dense; what came through fences and atomics, of
// other CTAs or of single lanes, is sparse and shared between those who know the same.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace flashmoe::vgpu::observe {

// Sorted by actor. An actor is a warp of the grid: CTA number x warps per CTA + warp.
using SparseClock = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

[[nodiscard]] SparseClock merged(const SparseClock& a, const SparseClock& b);
[[nodiscard]] std::uint32_t clock_of(const SparseClock& clock, std::uint32_t actor);

// Some lanes of a warp are known up to a clock that the others are not.
struct LaneTime {
  std::uint32_t actor = 0, lanes = 0, clock = 0;
  [[nodiscard]] bool operator==(const LaneTime&) const = default;
};
using LaneClock = std::vector<LaneTime>;  // sorted by actor

[[nodiscard]] LaneClock merged(const LaneClock& a, const LaneClock& b);

// What a release leaves for whoever acquires it: whole warps, and lanes that are known beyond their warp.
struct Message {
  SparseClock warps{};
  LaneClock lanes{};

  [[nodiscard]] bool knows(std::uint32_t actor, std::uint32_t lane, std::uint32_t clock) const;
};
using MessagePtr = std::shared_ptr<const Message>;

void join(MessagePtr& into, const MessagePtr& other);

struct VectorClock {
  std::vector<std::uint32_t> own{};  // by warp of the CTA
  MessagePtr beyond{};               // other CTAs, and single lanes of any

  void join(const VectorClock& other);
  // `first` is the actor of the CTA's warp 0.
  void join(const MessagePtr& other, std::uint32_t first);
  [[nodiscard]] Message message(std::uint32_t first) const;
};

}  // namespace flashmoe::vgpu::observe
