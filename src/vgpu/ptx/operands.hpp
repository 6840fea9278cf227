// Operands of an instruction (PTX ISA 6.1 to 6.4) and of an initialiser (5.4.4).
#pragma once

#include "vgpu/ptx/cursor.hpp"

namespace flashmoe::vgpu::ptx {

// `in_call`: an opening parenthesis begins a list of arguments, not an expression.
[[nodiscard]] Operand parse_operand(Cursor& cursor, bool in_call);

// A constant, symbol, symbol + constant, generic(symbol), or mask(symbol).
[[nodiscard]] Operand parse_initial_value(Cursor& cursor);

[[nodiscard]] Operand integer_operand(std::uint64_t value, Location at);

}  // namespace flashmoe::vgpu::ptx
