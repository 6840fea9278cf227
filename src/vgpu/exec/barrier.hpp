// CTA barriers (PTX ISA 9.7.13.1): a thread waits first for all threads of its warp that have not exited, then the warp
// counts as 32 threads, then it waits for the other warps.
#pragma once

#include <cstdint>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

inline constexpr std::uint32_t barriers_per_cta = 16;

// The lanes of warp.exec come to a barrier; the warp goes on with whoever can.
void come_to_barrier(Warp& warp, std::uint32_t number, std::uint32_t threads, bool arrives_only);

// All lanes of the warp wait at one barrier: the warp arrives there. False: they do not.
[[nodiscard]] bool meets_at_barrier(Warp& warp);
// Some lanes wait for other warps.
[[nodiscard]] bool waits_at_counted_barrier(const Warp& warp);

// The warp's last lane has exited: its copies land, and barriers no longer wait for it.
void end_warp(Warp& warp);

}  // namespace flashmoe::vgpu::exec
