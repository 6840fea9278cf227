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
