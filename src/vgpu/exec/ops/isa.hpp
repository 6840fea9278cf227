// Which instruction set of the host the variants may use.
#pragma once

#include <string_view>

namespace flashmoe::vgpu::exec::ops {

enum class Isa { baseline, avx2, avx512 };

[[nodiscard]] std::string_view name_of(Isa isa);
[[nodiscard]] bool host_has(Isa isa);
// The best the host has, or what the environment's VGPU_ISA asks for when the host has that.
[[nodiscard]] Isa chosen_isa();

}  // namespace flashmoe::vgpu::exec::ops
