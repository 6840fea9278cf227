// Bytes -> a kernel that always ends, whose every result the PTX ISA defines to the bit. Straight code, nested ifs,
// loops of bounded length, jump tables and calls, mostly divergent; memory in windows of each thread's own; warp-wide
// instructions and barriers only where all threads pass together.
#pragma once

#include <cstdint>
#include <span>

#include "vgpu/micro/micro_kernel.hpp"

namespace flashmoe::vgpu::micro {

[[nodiscard]] MicroKernel random_kernel(std::span<const std::uint8_t> bytes);

}  // namespace flashmoe::vgpu::micro
