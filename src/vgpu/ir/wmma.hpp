// wmma.load, .mma and .store (PTX ISA 9.7.14.4) in terms of ld, mma.sync and st. The manual leaves open which lane
// holds which element of a fragment; here it is as for mma.sync, block by block, so that checks and counters need to
// know nothing of wmma. A product with m = 8 is computed transposed: D' = B' A'.
#pragma once

#include <optional>

#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

// What does the same, with registers of its own. `address_bits`: of the register that holds the address, 64 where it is
// a name. Nothing: a form that is not executed (4- and 1-bit integers, C and D of two types).
[[nodiscard]] std::optional<ptx::Block> expanded_wmma(const ptx::Instruction& instruction, int address_bits);

}  // namespace flashmoe::vgpu::ir
