// Loops over the lanes of a mask, and sums over lanes that several ops need.
#pragma once

#include <bit>
#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

template <class Body>
inline void for_each_lane(std::uint32_t lanes, Body&& body) {
  if (lanes == all_lanes) {
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      body(lane);
    }
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) {
    body(std::countr_zero(lanes));
  }
}

[[nodiscard]] inline int first_lane(std::uint32_t lanes) {
  return std::countr_zero(lanes);
}

// body(group, mask) for the lanes of warp.exec that name the same mask in slot `m`; all of them where the op has none.
template <class Body>
inline void for_each_group(const Warp& warp, const ir::Inst& inst, Body&& body) {
  if (inst.m == ir::no_slot) {
    if (warp.exec != 0) {
      body(warp.exec, all_lanes);
    }
    return;
  }
  const std::uint32_t* const masks = warp.slot(inst.m);
  for (std::uint32_t left = warp.exec; left != 0;) {
    const std::uint32_t mask = masks[first_lane(left)];
    std::uint32_t group = 0;
    for_each_lane(left, [&](int lane) { group |= masks[lane] == mask ? 1u << lane : 0u; });
    left &= ~group;
    body(group, mask);
  }
}

// Lanes of the warp that exist and have not exited.
[[nodiscard]] inline std::uint32_t live_lanes(const Warp& warp) {
  return warp.valid & ~warp.exited;
}

// splitmix64: every draw of a seeded schedule.
[[nodiscard]] inline std::uint64_t draw(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ull;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

}  // namespace flashmoe::vgpu::exec
