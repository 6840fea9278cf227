// Micro-kernels for what cannot be made from a list of operands: control flow, barriers, asynchronous copies, address
// spaces, and instructions that change nothing one can see in a register.
#pragma once

#include <optional>

#include "vgpu/micro/form_text.hpp"
#include "vgpu/micro/micro_kernel.hpp"
#include "vgpu/micro/values.hpp"

namespace flashmoe::vgpu::micro {

[[nodiscard]] bool is_handwritten(const FormText& form);
[[nodiscard]] std::optional<MicroKernel> handwritten_form(const FormText& form, Random& random);

// trap ends the grid and has a test of its own. (brkpt without a debugger goes on.)
[[nodiscard]] bool ends_the_grid(const FormText& form);

}  // namespace flashmoe::vgpu::micro
