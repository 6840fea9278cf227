// The rows of the op table by chapter of the manual, and the lists of modifiers that many rows share. Section numbers
// are those of PTX ISA 9.0.
#pragma once

#include <span>

#include "vgpu/ir/op_table.hpp"

namespace flashmoe::vgpu::ir {

[[nodiscard]] std::span<const OpRow> integer_rows();
[[nodiscard]] std::span<const OpRow> float_rows();
[[nodiscard]] std::span<const OpRow> compare_rows();  // comparison, selection, logic, shifts
[[nodiscard]] std::span<const OpRow> move_rows();     // mov, cvt, shuffles, addresses
[[nodiscard]] std::span<const OpRow> memory_rows();
[[nodiscard]] std::span<const OpRow> control_rows();  // control flow, barriers, votes
[[nodiscard]] std::span<const OpRow> matrix_rows();

}  // namespace flashmoe::vgpu::ir
