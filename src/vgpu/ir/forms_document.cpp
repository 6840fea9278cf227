#include <fmt/format.h>

#include "vgpu/ir/op_rows.hpp"
#include "vgpu/ir/pattern.hpp"

namespace flashmoe::vgpu::ir {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string_view poison_text(PoisonRule rule) {
  switch (rule) {
    case PoisonRule::any_to_all:
      return "any";
    case PoisonRule::move:
      return "bit by bit";
    case PoisonRule::bitwise:
      return "bitwise";
    case PoisonRule::select:
      return "the chosen one";
    case PoisonRule::load:
      return "load";
    case PoisonRule::store:
      return "store";
    case PoisonRule::atomic:
      return "atomic";
    case PoisonRule::async_copy:
      return "copy";
    case PoisonRule::matrix_load:
      return "matrix";
    case PoisonRule::matrix_multiply:
      return "row and column";
    case PoisonRule::vote:
      return "all lanes";
    case PoisonRule::none:
      break;
  }
  return "-";
}

struct Chapter {
  std::string_view title;
  std::span<const OpRow> rows;
};

constexpr std::string_view kIntroduction = R"(# PTX forms the virtual GPU executes

Generated from the op table (src/vgpu/ir/op_rows_*.cpp), which the verifier and the tests read as well. Write it anew
with `VGPU_REBASE=1 vgpu_op_table_test`. A kernel with a form that is not listed cannot be launched; the error has file, line,
column, text and the nearest form of this list.

- `{.a,.b}`: one of them. `[.a,.b]`: one of them or none. `<hint>`: any number of cache hints (`.L1::evict_first`,
  `.L2::128B`, `.L2::cache_hint`, ...), which change no result. Everything else as written. Modifiers may stand in any
  order, types among themselves may not.
- Operands in the order written, each as `name:what`. `T`: the form's last type, `U`: its first, `W`: twice as wide as
  `T`; `+`: the register may be wider; `v`: a vector as long as `.v2`, `.v4` say; `v4`: four registers; `pack`: one
  register or several of the same bits together; `?`: may be left out; `carry`: the flag CC.CF, not written.
- Undefined bits: how uninitialised data passes from sources to results (what initcheck follows).
- Sections are those of PTX ISA 9.0. The pipe is the unit that the counters book the instruction on.
)";

}  // namespace

std::string shown(const OpRow& row) {
  std::string text = fmt::format("{}{}", row.opcode, row.pattern);
  const std::size_t begin = text.find('<');
  if (begin != std::string::npos) text.replace(begin, text.find('>') + 1 - begin, "<hint>");
  return text;
}

std::string op_table_markdown() {
  const Chapter chapters[] = {
      {"Integers, logic, shifts", integer_rows()},
      {"Floating point", float_rows()},
      {"Comparison and selection", compare_rows()},
      {"Moves and conversions", move_rows()},
      {"Memory", memory_rows()},
      {"Matrices", matrix_rows()},
      {"Control flow, barriers, votes", control_rows()},
  };
  std::size_t forms = 0;
  for (const OpRow& row : op_table()) forms += Pattern(row.pattern).expand().size();
  std::string text(kIntroduction);
  text += fmt::format("\n{} rows, {} forms without counting hints.\n", op_table().size(), forms);
  for (const Chapter& chapter : chapters) {
    text += fmt::format(
        "\n## {}\n\n| forms | operands | pipe | undefined bits | section |\n| --- | --- | --- | --- | --- |\n",
        chapter.title);
    for (const OpRow& row : chapter.rows) {
      const std::string operands = row.operands.empty() ? "" : fmt::format("`{}`", escaped(row.operands));
      text += fmt::format("| `{}` | {} | {} | {} | {} |\n", shown(row), operands, name_of(row.pipe),
                          poison_text(row.poison), row.section);
    }
  }
  text += "\n## Not executed\n\n| what | for example | section |\n| --- | --- | --- |\n";
  for (const UnsupportedRow& row : unsupported_table())
    text += fmt::format("| {} | `{}` | {} |\n", row.what, row.example, row.section);
  return text;
}

}  // namespace flashmoe::vgpu::ir
