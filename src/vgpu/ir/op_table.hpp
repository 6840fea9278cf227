// The one list of what the virtual GPU executes. A row is a family of forms in the notation of the PTX manual:
// `{.a,.b}` one of, `[.a,.b]` one of or nothing, `<.a,.b>` any number of, everything else as written; the order of
// modifiers is free where real compilers vary it. The documentation of supported forms, the verifier and the
// micro-kernel tests all read this table.
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
  // "d:T a:T b:T c:T": the field of Inst, then what stands there, in the order written. T the last type, U the first,
  // W twice as wide as T, else a type; `+` after it: the register may be wider. addr, label, targets, pred, mask (b32),
  // immediate (an integer, the field holds itself), any (a scalar of any width), carry (CC.CF: not written).
  // d:v:T a vector as long as the form says (.v4) or a scalar, d:v4:T four elements, d:pack:T a scalar or a vector
  // of that many bits together. d:T|e:pred: e may be left out, as may what ends in `?`. policy: checked, then left out.
  std::string_view operands;
  Pipe pipe;
  PoisonRule poison;
  std::string_view section;  // of the PTX ISA, "9.7.3.6"
};

[[nodiscard]] std::span<const OpRow> op_table();
// The row a form belongs to; nullptr: unsupported. Fills types, space, rounding and vector of `form`.
[[nodiscard]] const OpRow* match(Form& form);
// The row that differs least from an unsupported form.
[[nodiscard]] const OpRow& nearest_row(const Form& form);
// Every form of a row, written out (without what stands in <>): {"fma.rn.f32", "fma.rn.ftz.f32", ...}
[[nodiscard]] std::vector<std::string> expand(const OpRow& row);
// "ld[.weak][.global]...<hint>.b32": a row for a reader, cache hints not spelled out.
[[nodiscard]] std::string shown(const OpRow& row);

// What of the PTX ISA is not executed, so that nobody has to find out: a form that fails, and what it belongs to.
struct UnsupportedRow {
  std::string_view what;     // "texture fetches"
  std::string_view example;  // "tex.1d.v4.f32.s32"
  std::string_view section;
};
[[nodiscard]] std::span<const UnsupportedRow> unsupported_table();
// Opcodes of the PTX ISA that no row of op_table() begins with.
[[nodiscard]] std::span<const std::string_view> opcodes_not_executed();
// Whether PTX has instructions of this name, executed or not; any other is a mistake in the text.
[[nodiscard]] bool is_ptx_opcode(std::string_view opcode);

// docs/ptx-forms.md, generated.
[[nodiscard]] std::string op_table_markdown();

}  // namespace flashmoe::vgpu::ir
