// Micro-kernels of the forms whose operands are all registers, predicates and immediates: the whole of arithmetic,
// logic, comparison, conversion, and the warp-wide instructions.
#pragma once

#include <optional>

#include "vgpu/micro/form_text.hpp"
#include "vgpu/micro/micro_kernel.hpp"
#include "vgpu/micro/values.hpp"

namespace flashmoe::vgpu::micro {

// Nothing: the form needs another generator.
[[nodiscard]] std::optional<MicroKernel> register_form(const FormText& form, Random& random);

}  // namespace flashmoe::vgpu::micro
