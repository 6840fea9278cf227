// Loops over the lanes of a mask.
#pragma once

#include <bit>
#include <cstdint>

namespace flashmoe::vgpu::observe {

template <class Body>
inline void for_each_lane(std::uint32_t lanes, Body&& body) {
  if (lanes == 0xffffffffu) {
    for (int lane = 0; lane < 32; ++lane) body(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) body(std::countr_zero(lanes));
}

}  // namespace flashmoe::vgpu::observe
