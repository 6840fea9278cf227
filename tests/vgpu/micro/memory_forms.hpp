// Micro-kernels of the forms that touch memory: ld, st, atom, red, ldmatrix, stmatrix.
#pragma once

#include <optional>

#include "vgpu/micro/form_text.hpp"
#include "vgpu/micro/micro_kernel.hpp"
#include "vgpu/micro/values.hpp"

namespace flashmoe::vgpu::micro {

// Nothing: the form needs another generator.
[[nodiscard]] std::optional<MicroKernel> memory_form(const FormText& form, Random& random);

// The state space a memory form names: "global", "shared", "local", "const", "param", "func" (.param::func), or "" for
// generic addresses.
[[nodiscard]] std::string space_of(const FormText& form);

}  // namespace flashmoe::vgpu::micro
