// Literals as the bits of a register.
#pragma once

#include <cstdint>
#include <optional>

#include "vgpu/ir/form.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

// Nothing: a floating literal where an integer of another width is wanted. An integer where a float is wanted is the
// float's bits, as ptxas takes it.
[[nodiscard]] std::optional<std::uint64_t> immediate_bits(const ptx::Operand& literal, Type type);

}  // namespace flashmoe::vgpu::ir
