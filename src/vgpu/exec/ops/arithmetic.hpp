// The function of an arithmetic form in a given variant; arithmetic_handler() asks for the chosen one.
#pragma once

#include "vgpu/exec/ops/isa.hpp"
#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::exec::ops {

[[nodiscard]] ir::Handler arithmetic_handler_for(const ir::Form& form, Isa isa);

}  // namespace flashmoe::vgpu::exec::ops
