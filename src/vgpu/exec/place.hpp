// Where a thread stands, in words.
#pragma once

#include <cstdint>
#include <string>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec {

// threadIdx of a lane.
[[nodiscard]] Dim3 thread_of(const Warp& warp, int lane);
// "kernel saxpy, saxpy.cu:7, PTX line 31 `ld.global.f32 %f1, [%rd4]`"
[[nodiscard]] std::string place_of(const ir::Kernel& kernel, std::uint32_t pc);

}  // namespace flashmoe::vgpu::exec
