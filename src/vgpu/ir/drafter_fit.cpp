// Which operand of an instruction is which of its row, and what to say when one does not fit.
#include <fmt/format.h>

#include <algorithm>

#include "vgpu/ir/drafter.hpp"
#include "vgpu/ir/operand_kinds.hpp"
#include "vgpu/ir/special.hpp"

namespace flashmoe::vgpu::ir {
namespace {

using Kind = OperandSpec::Kind;
using Shape = OperandSpec::Shape;
using OperandKind = ptx::Operand::Kind;

// {%r1} is %r1 where a vector may stand and the form has no .v2, .v4.
const ptx::Operand& without_braces(const OperandSpec& spec, const Form& form, const ptx::Operand& operand) {
  const bool is_one = operand.kind == OperandKind::vector && operand.parts.size() == 1;
  const bool may_be_scalar = spec.shape == Shape::pack || (spec.shape == Shape::form_vector && form.vector == 1);
  return is_one && may_be_scalar ? operand.parts[0] : operand;
}

}  // namespace

std::optional<Drafter::Bound> Drafter::bind(const ptx::Instruction& instruction, const Known& known) {
  Bound bound(known.specs.size(), nullptr);
  std::pair<std::size_t, std::size_t> furthest{0, 0};  // operand, spec
  if (bind_from(instruction, known, 0, 0, bound, furthest)) return bound;
  const auto [operand, spec] = furthest;
  const bool has_operand = operand < instruction.operands.size();
  const bool has_spec = spec < known.specs.size();
  fail(has_operand ? instruction.operands[operand].at : instruction.at,
       fmt::format("operand {}: {} wanted, {} found", operand + 1,
                   has_spec ? describe(known.specs[spec], known.form) : "nothing more",
                   has_operand ? describe(instruction.operands[operand]) : "nothing"),
       fmt::format("operands of {}: {}", shown(*known.row), known.row->operands));
  return std::nullopt;
}

bool Drafter::bind_from(const ptx::Instruction& instruction, const Known& known, std::size_t spec, std::size_t operand,
                        Bound& bound, std::pair<std::size_t, std::size_t>& furthest) const {
  const bool specs_end = spec == known.specs.size();
  const bool operands_end = operand == instruction.operands.size();
  if (specs_end && operands_end) return true;
  if (!specs_end) {
    const OperandSpec& wanted = known.specs[spec];
    if (wanted.kind == Kind::carry) return bind_from(instruction, known, spec + 1, operand, bound, furthest);
    const ptx::Operand* const given =
        operands_end ? nullptr : &without_braces(wanted, known.form, instruction.operands[operand]);
    if (given != nullptr && fits(wanted, known.form, *given)) {
      bound[spec] = given;
      if (bind_from(instruction, known, spec + 1, operand + 1, bound, furthest)) return true;
      bound[spec] = nullptr;
    }
    if (wanted.is_optional && bind_from(instruction, known, spec + 1, operand, bound, furthest)) return true;
  }
  if (operand >= furthest.first) furthest = {operand, std::max(spec, operand > furthest.first ? 0 : furthest.second)};
  return false;
}

bool Drafter::fits(const OperandSpec& spec, const Form& form, const ptx::Operand& operand) const {
  if (operand.minus) return false;
  switch (spec.kind) {
    case Kind::address:
      return operand.kind == OperandKind::address && operand.parts.empty();
    case Kind::label:
      return operand.kind == OperandKind::identifier && scopes_.find(operand.name).kind == Symbol::Kind::label;
    case Kind::targets:
      return operand.kind == OperandKind::identifier && scopes_.find(operand.name).kind == Symbol::Kind::targets;
    case Kind::immediate:
      return operand.kind == OperandKind::integer;
    case Kind::carry:
    case Kind::call:
      return false;
    default:
      break;
  }
  if (operand.kind == OperandKind::predicate_pair) {
    OperandSpec second;
    second.field = Field::d;
    second.kind = Kind::predicate;
    return spec.has_second && fits(spec, form, operand.parts[0]) && fits_scalar(second, operand.parts[1], 1, false);
  }
  if (spec.shape != Shape::scalar && !(spec.shape == Shape::form_vector && form.vector == 1) &&
      !(spec.shape == Shape::pack && operand.kind != OperandKind::vector))
    return fits_vector(spec, form, operand);
  return fits_scalar(spec, operand, register_bits(spec.type(form)), spec.may_be_wider);
}

bool Drafter::fits_vector(const OperandSpec& spec, const Form& form, const ptx::Operand& operand) const {
  if (operand.kind != OperandKind::vector)
    return spec.shape == Shape::fixed_vector && spec.count == 1 &&
           fits_scalar(spec, operand, register_bits(spec.type(form)), spec.may_be_wider);
  const auto count = static_cast<int>(operand.parts.size());
  int bits = bits_of(spec.type(form));
  if (spec.shape == Shape::pack) {
    if (count != 2 && count != 4 && count != 8) return false;
    bits /= count;
    if (bits < 16) return false;
  } else if (count != (spec.shape == Shape::form_vector ? form.vector : spec.count)) {
    return false;
  }
  return std::all_of(operand.parts.begin(), operand.parts.end(), [&](const ptx::Operand& part) {
    return fits_scalar(spec, part, std::max(bits, 16), spec.may_be_wider);
  });
}

bool Drafter::fits_scalar(const OperandSpec& spec, const ptx::Operand& operand, int bits, bool may_be_wider) const {
  const bool wants_predicate = spec.kind == Kind::predicate;
  if (operand.kind == OperandKind::placeholder) return spec.is_written();
  if (is_literal(operand)) return !spec.is_written() && (!wants_predicate || operand.kind == OperandKind::integer);
  if (operand.kind != OperandKind::identifier || (operand.negated && !wants_predicate)) return false;
  const Symbol symbol = scopes_.find(operand.name);
  if (symbol.kind == Symbol::Kind::reg) {
    if (operand.offset != 0) return false;
    const int width = draft_.registers[symbol.number].bits;
    if (wants_predicate || width == 1) return wants_predicate && width == 1;
    return spec.kind == Kind::any || width == bits || (may_be_wider && width > bits);
  }
  if (spec.is_written()) return false;
  if (const auto special = special_register(operand.name)) return wants_predicate == (special->bits == 1);
  if (operand.name == kWarpSize) return !wants_predicate;
  return !wants_predicate && bits >= 32 && (is_variable(symbol) || symbol.kind == Symbol::Kind::function);
}

std::string Drafter::describe(const OperandSpec& spec, const Form& form) const {
  switch (spec.kind) {
    case Kind::predicate:
      return "a predicate";
    case Kind::address:
      return "an address";
    case Kind::label:
      return "a label of this function";
    case Kind::targets:
      return "a list of .branchtargets";
    case Kind::immediate:
      return "an integer constant";
    case Kind::any:
      return "a register";
    default:
      break;
  }
  const std::string type = fmt::format(".{} ({} bits)", name_of(spec.type(form)), register_bits(spec.type(form)));
  if (spec.shape == Shape::fixed_vector) return fmt::format("{{}} of {} elements of {}", spec.count, type);
  if (spec.shape == Shape::form_vector && form.vector > 1)
    return fmt::format("{{}} of {} elements of {}", form.vector, type);
  return fmt::format("{} of {}", spec.is_written() ? "a register" : "a value", type);
}

std::string Drafter::describe(const ptx::Operand& operand) const {
  switch (operand.kind) {
    case OperandKind::address:
      return "an address";
    case OperandKind::vector:
      return fmt::format("{{}} of {} elements", operand.parts.size());
    case OperandKind::list:
      return "a list";
    case OperandKind::placeholder:
      return "_";
    case OperandKind::predicate_pair:
      return "p|q";
    case OperandKind::identifier:
      break;
    default:
      return fmt::format("the constant {}", operand.text);
  }
  const Symbol symbol = scopes_.find(operand.name);
  if (symbol.kind == Symbol::Kind::none && !special_register(operand.name))
    return fmt::format("{}, which is declared nowhere", operand.name);
  if (symbol.kind != Symbol::Kind::reg) return operand.name;
  const int bits = draft_.registers[symbol.number].bits;
  return bits == 1 ? fmt::format("the predicate {}", operand.name) : fmt::format("{} ({} bits)", operand.name, bits);
}

}  // namespace flashmoe::vgpu::ir
