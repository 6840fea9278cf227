// Small questions about operands that fitting and resolving them both ask.
#pragma once

#include <algorithm>
#include <string_view>

#include "vgpu/ir/form.hpp"
#include "vgpu/ir/scope.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

inline constexpr std::string_view kWarpSize = "WARP_SZ";

inline bool is_literal(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::integer || operand.kind == ptx::Operand::Kind::floating ||
         operand.kind == ptx::Operand::Kind::single;
}

inline bool is_variable(const Symbol& symbol) {
  return symbol.kind >= Symbol::Kind::shared && symbol.kind <= Symbol::Kind::constant;
}

// Registers have 16 bits at least.
inline int register_bits(Type type) {
  return bits_of(type) == 1 ? 1 : std::max(bits_of(type), 16);
}

}  // namespace flashmoe::vgpu::ir
