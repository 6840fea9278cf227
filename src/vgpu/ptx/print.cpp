// AST -> text. Variables and functions are printed in the order that compilers use, whatever their order was; it reads
// back as the same AST.
#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <unordered_map>

#include "vgpu/ptx/parser.hpp"

namespace flashmoe::vgpu::ptx {
namespace {

class Printer {
 public:
  std::string take() { return std::move(out_); }

  void module(const Module& module) {
    put(".version {}.{}\n", module.version_major, module.version_minor);
    if (!module.targets.empty()) put(".target {}\n", fmt::join(module.targets, ", "));
    put(".address_size {}\n\n", module.address_size);
    for (const std::string& pragma : module.pragmas) put(".pragma \"{}\";\n", pragma);
    // Compilers declare functions before the variables whose initialisers name them; ptxas wants it so.
    auto function = module.functions.begin();
    for (; function != module.functions.end() && function->is_declaration; ++function) this->function(*function);
    for (const Variable& variable : module.variables) {
      declaration(variable);
      out_ += ";\n";
    }
    for (; function != module.functions.end(); ++function) this->function(*function);
    for (const auto& [name, target] : module.aliases) put(".alias {}, {};\n", name, target);
    for (const File& file : module.files) put("\t.file {} \"{}\"\n", file.index, file.path);
    debug_strings();
  }

  void instruction(const Instruction& instruction) {
    // Appended, not formatted: every instruction of a kernel is printed when it is lowered.
    if (instruction.guard)
      out_.append(instruction.guard->negated ? "@!" : "@").append(instruction.guard->predicate) += ' ';
    append_form(out_, instruction.opcode, instruction.modifiers);
    out_ += instruction.operands.empty() ? "" : " ";
    operands(instruction.operands);
    out_ += ';';
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void offset(std::int64_t bytes) {
    if (bytes != 0) put("+{}", bytes);  // +-16: ptxas takes no minus here
  }

  void operands(const std::vector<Operand>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      operand(list[i]);
    }
  }

  void literal(const Operand& operand) {
    if (!operand.text.empty()) {
      out_ += operand.text;
    } else if (operand.kind == Operand::Kind::integer) {
      put("{}", static_cast<std::int64_t>(operand.bits));
    } else if (operand.kind == Operand::Kind::single) {
      put("0f{:08X}", static_cast<std::uint32_t>(operand.bits));
    } else {
      put("0d{:016X}", operand.bits);
    }
  }

  void identifier(const Operand& operand) {
    if (operand.bits != 0) put("0x{:X}(", operand.bits);
    out_ += operand.negated ? "!" : operand.minus ? "-" : "";
    out_.append(operand.generic ? "generic(" : "").append(operand.name).append(operand.generic ? ")" : "");
    offset(operand.offset);
    if (operand.bits != 0) out_ += ')';
  }

  void operand(const Operand& operand) {
    switch (operand.kind) {
      case Operand::Kind::identifier:
        return identifier(operand);
      case Operand::Kind::integer:
      case Operand::Kind::floating:
      case Operand::Kind::single:
        return literal(operand);
      case Operand::Kind::address:
        out_ += '[';
        if (operand.name.empty()) {
          put("{}", operand.offset);
        } else {
          out_ += operand.name;
          offset(operand.offset);
        }
        out_ += operand.parts.empty() ? "" : ", ";
        operands(operand.parts);
        out_ += ']';
        return;
      case Operand::Kind::vector:
        out_ += '{';
        operands(operand.parts);
        out_ += '}';
        return;
      case Operand::Kind::predicate_pair:
        for (std::size_t i = 0; i < operand.parts.size(); ++i) {
          out_ += i == 0 ? "" : "|";
          this->operand(operand.parts[i]);
        }
        return;
      case Operand::Kind::list:
        out_ += '(';
        operands(operand.parts);
        out_ += ')';
        return;
      case Operand::Kind::placeholder:
        out_ += '_';
        return;
    }
  }

  void linkage(bool is_extern, bool is_visible, bool is_weak, bool is_common) {
    if (is_extern) out_ += ".extern ";
    if (is_visible) out_ += ".visible ";
    if (is_weak) out_ += ".weak ";
    if (is_common) out_ += ".common ";
  }

  void attributes(const std::vector<std::string>& attributes) {
    if (attributes.empty()) return;
    out_ += " .attribute(";
    for (std::size_t i = 0; i < attributes.size(); ++i) put("{}.{}", i == 0 ? "" : ", ", attributes[i]);
    out_ += ')';
  }

  // A variable or a parameter without what ends it.
  void declaration(const Variable& variable) {
    linkage(variable.is_extern, variable.is_visible, variable.is_weak, variable.is_common);
    put(".{}", variable.space);
    attributes(variable.attributes);
    if (variable.align != 0) put(" .align {}", variable.align);
    if (variable.vector != 1) put(" .v{}", variable.vector);
    put(" .{}", variable.type);
    if (variable.is_pointer) {
      out_ += " .ptr";
      if (!variable.pointer_space.empty()) put(" .{}", variable.pointer_space);
      if (variable.pointer_align != 0) put(" .align {}", variable.pointer_align);
    }
    put(" {}", variable.name);
    if (variable.range != 0) put("<{}>", variable.range);
    for (const std::int64_t size : variable.dims) {
      if (size < 0) {
        out_ += "[]";
      } else {
        put("[{}]", size);
      }
    }
    if (variable.initial.empty()) return;
    const bool braces = !variable.dims.empty() || variable.initial.size() > 1;
    out_ += braces ? " = {" : " = ";
    operands(variable.initial);
    out_ += braces ? "}" : "";
  }

  void parameters(const std::vector<Variable>& list) {
    out_ += '(';
    for (std::size_t i = 0; i < list.size(); ++i) {
      out_ += i == 0 ? "" : ", ";
      declaration(list[i]);
    }
    out_ += ')';
  }

  void function(const Function& function) {
    linkage(function.is_extern, function.is_visible, function.is_weak, false);
    out_ += function.is_entry ? ".entry" : ".func";
    attributes(function.attributes);
    out_ += ' ';
    if (!function.returns.empty()) {
      parameters(function.returns);
      out_ += ' ';
    }
    out_ += function.name;
    parameters(function.parameters);
    if (function.is_noreturn) out_ += " .noreturn";
    for (const auto& [name, values] : function.directives)
      put("\n.{}{}{}", name, values.empty() ? "" : " ", fmt::join(values, ", "));
    if (!function.is_declaration) out_ += "\n{";
    // Within the body, where ptxas takes them from functions as well as from kernels.
    for (const std::string& pragma : function.pragmas) put("\n.pragma \"{}\";", pragma);
    if (function.is_declaration) {
      out_ += ";\n";
      return;
    }
    function_ = &function;
    printed_locations_ = 0;
    out_ += '\n';
    statements(function.body, 1);
    locations(function.sources.size());
    out_ += "}\n";
  }

  // All .locs up to the one that holds for what comes next: call sites are found among those before.
  void locations(std::size_t count) {
    for (; printed_locations_ < count && printed_locations_ < function_->sources.size(); ++printed_locations_) {
      const SourceLocation& source = function_->sources[printed_locations_];
      put("\t.loc {} {} {}", source.file, source.line, source.column);
      if (!source.function.empty()) {
        const auto [name, is_new] = names_.try_emplace(source.function, ordered_names_.size());
        if (is_new) ordered_names_.push_back(source.function);
        put(", function_name $L__info_string{}", name->second);
      }
      if (const auto& site = source.inlined_at) put(", inlined_at {} {} {}", site->file, site->line, site->column);
      out_ += '\n';
    }
  }

  void statements(const Block& block, std::size_t depth) {
    for (const Statement& statement : block.statements)
      std::visit([&](const auto& what) { this->statement(what, depth); }, statement.what);
  }

  void statement(const Instruction& instruction, std::size_t depth) {
    locations(static_cast<std::size_t>(instruction.source) + 1);
    out_.append(depth, '\t');
    this->instruction(instruction);
    out_ += '\n';
  }

  void statement(const Variable& variable, std::size_t depth) {
    out_.append(depth, '\t');
    declaration(variable);
    out_ += ";\n";
  }

  void statement(const Label& label, std::size_t) { put("{}:\n", label.name); }

  void statement(const Block& block, std::size_t depth) {
    out_.append(depth, '\t');
    out_ += "{\n";
    statements(block, depth + 1);
    out_.append(depth, '\t');
    out_ += "}\n";
  }

  void statement(const TargetList& list, std::size_t depth) {
    out_.append(depth, '\t');
    put("{}: ", list.name);
    if (list.kind == TargetList::Kind::prototype) {
      out_ += ".callprototype ";
      parameters(list.returns);
      out_ += " _ ";
      parameters(list.parameters);
      out_ += list.is_noreturn ? " .noreturn" : "";
    } else {
      put(".{} {}", list.kind == TargetList::Kind::branch ? "branchtargets" : "calltargets",
          fmt::join(list.targets, ", "));
    }
    out_ += ";\n";
  }

  // Names of inlined functions as compilers leave them: bytes behind the labels that .loc names.
  void debug_strings() {
    if (ordered_names_.empty()) return;
    out_ += "\t.section .debug_str\n\t{\n";
    for (std::size_t i = 0; i < ordered_names_.size(); ++i) {
      put("$L__info_string{}:\n.b8 ", i);
      for (const char c : ordered_names_[i]) put("{},", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out_ += "0\n";
    }
    out_ += "\t}\n";
  }

  std::string out_{};
  const Function* function_ = nullptr;
  std::size_t printed_locations_ = 0;
  std::unordered_map<std::string, std::size_t> names_{};
  std::vector<std::string> ordered_names_{};
};

}  // namespace

void append_form(std::string& to, std::string_view opcode, const std::vector<std::string>& modifiers) {
  to += opcode;
  for (const std::string& modifier : modifiers) to.append(".").append(modifier);
}

std::string Instruction::form() const {
  std::string text;
  append_form(text, opcode, modifiers);
  return text;
}

std::string print(const Module& module) {
  Printer printer;
  printer.module(module);
  return printer.take();
}

std::string print(const Instruction& instruction) {
  Printer printer;
  printer.instruction(instruction);
  return printer.take();
}

}  // namespace flashmoe::vgpu::ptx
