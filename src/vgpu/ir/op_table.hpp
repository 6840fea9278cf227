// The one list of what the virtual GPU executes. A row is a family of forms in the notation of the PTX manual:
// `{.a,.b}` one of, `[.a,.b]` one of or nothing, everything else as written; the order of modifiers is free where real
// compilers vary it. The documentation of supported forms, the verifier and the micro-kernel tests all read this table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.hpp"
#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::ir {

struct OpRow {
  std::string_view opcode;   // "fma"
  std::string_view pattern;  // "{.rn,.rz,.rm,.rp}[.ftz][.sat].f32"
  // "d:T a:T b:T c:T": T the last type, U the first, W twice as wide as T, else a type; addr, label, sym, pred, mask;
  // v:T a vector; ? after an operand that may be left out.
  std::string_view operands;
  Pipe pipe;
  PoisonRule poison;
  std::string_view section;  // of the PTX ISA, "9.7.3.6"
};

[[nodiscard]] std::span<const OpRow> op_table();
// The row a form belongs to; nullptr: unsupported. Fills types, space, rounding and vector of `form`.
[[nodiscard]] const OpRow* match(Form& form);
// Every form of a row, written out: {"fma.rn.f32", "fma.rn.ftz.f32", ...}
[[nodiscard]] std::vector<std::string> expand(const OpRow& row);
// docs/ptx-forms.md, generated.
[[nodiscard]] std::string op_table_markdown();

}  // namespace flashmoe::vgpu::ir
