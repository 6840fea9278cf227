// Operands that fit, resolved: registers, constants, addresses, lists.
#include <fmt/format.h>

#include <algorithm>

#include "vgpu/ir/drafter.hpp"
#include "vgpu/ir/immediate.hpp"
#include "vgpu/ir/operand_kinds.hpp"
#include "vgpu/ir/special.hpp"

namespace flashmoe::vgpu::ir {
namespace {

using Kind = OperandSpec::Kind;
using Shape = OperandSpec::Shape;
using OperandKind = ptx::Operand::Kind;

Space space_of(Symbol::Kind kind) {
  switch (kind) {
    case Symbol::Kind::shared:
      return Space::shared;
    case Symbol::Kind::local:
      return Space::local;
    case Symbol::Kind::global:
      return Space::global;
    case Symbol::Kind::constant:
      return Space::constant;
    default:
      return Space::param;
  }
}

}  // namespace

void Drafter::refer(Draft& draft, Field field, std::uint32_t name, bool is_written) {
  // The first fields of both enums are the same.
  static_assert(static_cast<int>(Field::m) == static_cast<int>(Reference::Where::m));
  draft.references.push_back({static_cast<Reference::Where>(field), 0, name, is_written});
}

void Drafter::refer_in_list(Draft& draft, std::uint32_t name, bool is_written) {
  draft.references.push_back({Reference::Where::list, static_cast<std::uint32_t>(draft.list.size()), name, is_written});
  draft.list.push_back(0);
}

bool Drafter::apply(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft) {
  switch (spec.kind) {
    case Kind::address:
      return apply_address(spec, operand, draft);
    case Kind::label:
      draft.labels.push_back(scopes_.find(operand.name).number);
      return true;
    case Kind::targets:
      return apply_targets(operand, draft);
    case Kind::immediate:
      if (spec.field == Field::imm) {
        draft.inst.imm = static_cast<std::int64_t>(operand.bits);
        return true;
      }
      if (draft.info.form.opcode == "cp" && operand.bits != 16 &&
          (draft.info.form.has("cg") || (operand.bits != 4 && operand.bits != 8)))
        return fail(operand.at,
                    fmt::format("cp.async cannot copy {} bytes: .ca copies 4, 8 or 16, .cg copies 16", operand.text));
      draft.inst.size = static_cast<std::uint16_t>(std::min<std::uint64_t>(operand.bits, 0xffff));
      return true;
    default:
      break;
  }
  if (spec.field == Field::policy) return true;
  if (operand.kind == OperandKind::predicate_pair) {
    const ptx::Operand& second = operand.parts[1];
    if (second.kind != OperandKind::placeholder) refer(draft, Field::e, scopes_.find(second.name).number, true);
    return apply(spec, operand.parts[0], draft);
  }
  if (operand.kind == OperandKind::vector || spec.shape == Shape::fixed_vector)
    return apply_vector(spec, operand, draft);
  return apply_scalar(spec, operand, draft);
}

bool Drafter::apply_vector(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft) {
  const bool is_scalar = operand.kind != OperandKind::vector;
  const std::size_t count = is_scalar ? 1 : operand.parts.size();
  Form& form = draft.info.form;
  Type type = spec.type(form);
  int bits = register_bits(type);
  if (spec.shape == Shape::pack) {
    bits = bits_of(type) / static_cast<int>(count);
    type = bits == 16 ? Type::b16 : Type::b32;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const ptx::Operand& part = is_scalar ? operand : operand.parts[i];
    if (part.kind == OperandKind::placeholder) {
      draft.list.push_back(no_slot);
      continue;
    }
    const std::optional<std::uint32_t> name =
        spec.is_written() ? std::optional(scopes_.find(part.name).number) : value(part, type);
    if (!name) return false;
    bits = draft_.registers[*name].bits;
    refer_in_list(draft, *name, spec.is_written());
  }
  if (spec.is_written()) {
    form.destination_count = static_cast<int>(count);
    form.destination_bits = bits;
  } else if (form.source_bits == 0) {
    form.source_count = static_cast<int>(count);
    form.source_bits = bits;
  }
  return true;
}

bool Drafter::apply_scalar(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft) {
  Form& form = draft.info.form;
  if (spec.is_written()) {
    if (operand.kind == OperandKind::placeholder) {
      form.destination_bits = register_bits(spec.type(form));
      return true;
    }
    const std::uint32_t name = scopes_.find(operand.name).number;
    form.destination_bits = draft_.registers[name].bits;
    refer(draft, spec.field, name, true);
    return true;
  }
  if (form.opcode == "mov") {
    if (const auto special = special_register(operand.name);
        special && scopes_.find(operand.name).kind == Symbol::Kind::none) {
      form.reads_special = true;
      draft.inst.special = static_cast<std::uint16_t>(special->which);
      draft.inst.imm = special->number;
      draft.info.poison = PoisonRule::none;
      return true;
    }
  }
  std::optional<std::uint32_t> name;
  if (spec.kind == Kind::predicate) {
    const bool is_c = spec.field == Field::c;
    name = predicate_value(operand, !is_c);
    if (is_c) draft.inst.not_c = operand.kind == OperandKind::integer ? operand.bits == 0 : operand.negated;
  } else {
    const Type type = spec.kind == Kind::any ? Type::b64 : spec.type(form);
    name = value(operand, type);
  }
  if (!name) return false;
  if (form.source_bits == 0) form.source_bits = draft_.registers[*name].bits;
  refer(draft, spec.field, *name, false);
  return true;
}

bool Drafter::apply_targets(const ptx::Operand& operand, Draft& draft) {
  const Symbol symbol = scopes_.find(operand.name);
  if (symbol.targets->kind != ptx::TargetList::Kind::branch)
    return fail(operand.at, fmt::format("{} is no list of .branchtargets", operand.name));
  for (const std::string& target : symbol.targets->targets) {
    const Symbol label = scopes_.find(target);
    if (label.kind != Symbol::Kind::label)
      return fail(symbol.targets->at, fmt::format("branch target {} is no label of this function", target));
    draft.labels.push_back(label.number);
  }
  return true;
}

bool Drafter::apply_address(const OperandSpec& spec, const ptx::Operand& operand, Draft& draft) {
  Inst& inst = draft.inst;
  const bool is_second = spec.field == Field::b;
  // The second address of cp.async is its source.
  const Space space = is_second ? Space::global : draft.info.form.space;
  std::int64_t& offset = is_second ? inst.imm2 : inst.imm;
  offset = operand.offset;
  if (space == Space::param) inst.frame_parameter = !function_.is_entry;
  if (operand.name.empty()) return true;
  const Symbol symbol = scopes_.find(operand.name);
  if (symbol.kind == Symbol::Kind::reg) {
    const int bits = draft_.registers[symbol.number].bits;
    if (bits != 32 && bits != 64)
      return fail(operand.at, fmt::format("{} cannot be an address: it has {} bits", operand.name, bits));
    (is_second ? inst.b_wide : inst.wide_address) = bits == 64;
    refer(draft, spec.field, symbol.number, false);
    return true;
  }
  if (!is_variable(symbol))
    return fail(operand.at, symbol.kind == Symbol::Kind::none ? fmt::format("{} is declared nowhere", operand.name)
                                                              : fmt::format("{} cannot be an address", operand.name));
  const Space actual = space_of(symbol.kind);
  const bool is_generic = space == Space::generic && (actual == Space::global || actual == Space::constant);
  if (actual != space && !is_generic)
    return fail(operand.at, fmt::format("{} lies in .{}, the instruction accesses .{} memory", operand.name,
                                        name_of(actual), name_of(space)));
  bool is_local = false;
  const std::optional<std::uint64_t> address = address_value(symbol, operand, is_local);
  if (!address) return false;
  offset = static_cast<std::int64_t>(*address);
  if (actual == Space::param) inst.frame_parameter = symbol.kind == Symbol::Kind::frame_parameter;
  return true;
}

std::optional<std::uint64_t> Drafter::address_value(const Symbol& symbol, const ptx::Operand& operand, bool& is_local) {
  const auto offset = static_cast<std::uint64_t>(operand.offset);
  is_local = symbol.kind == Symbol::Kind::local;
  if (symbol.kind == Symbol::Kind::function) return context_.function_address(symbol.function->name) + offset;
  if (symbol.kind != Symbol::Kind::global && symbol.kind != Symbol::Kind::constant) return symbol.offset + offset;
  const std::uint64_t address = context_.address_of(operand.name);
  if (address == 0) {
    fail(operand.at, fmt::format("variable {} has no address: it is defined in no loaded module", operand.name));
    return std::nullopt;
  }
  return address + offset;
}

std::optional<std::uint32_t> Drafter::value(const ptx::Operand& operand, Type type) {
  const int width = register_bits(type);
  if (is_literal(operand)) {
    const std::optional<std::uint64_t> bits = immediate_bits(operand, type);
    if (!bits) {
      fail(operand.at, fmt::format("{} cannot be a .{}", operand.text, name_of(type)));
      return std::nullopt;
    }
    return constant(*bits, width);
  }
  const Symbol symbol = scopes_.find(operand.name);
  if (symbol.kind == Symbol::Kind::reg) return symbol.number;
  if (symbol.kind == Symbol::Kind::none && operand.name == kWarpSize) return constant(32, width);
  if (symbol.kind == Symbol::Kind::none) {
    const std::uint32_t name = temporary(width);
    move_special(operand, name);
    return name;
  }
  bool is_local = false;
  const std::optional<std::uint64_t> address = address_value(symbol, operand, is_local);
  if (!address) return std::nullopt;
  return constant(width == 32 ? *address & 0xffffffffu : *address, width, is_local);
}

std::optional<std::uint32_t> Drafter::predicate_value(const ptx::Operand& operand, bool may_negate) {
  std::uint32_t name = no_slot;
  bool is_negated = operand.negated;
  if (operand.kind == OperandKind::integer) {
    name = true_predicate();
    is_negated = operand.bits == 0;
  } else if (const Symbol symbol = scopes_.find(operand.name); symbol.kind == Symbol::Kind::reg) {
    name = symbol.number;
  } else {
    name = temporary(1);
    move_special(operand, name);
  }
  if (!may_negate || !is_negated) return name;
  const std::uint32_t negated = temporary(1);
  negate(name, negated);
  return negated;
}

std::uint32_t Drafter::constant(std::uint64_t bits, int width, bool is_local) {
  const auto [entry, is_new] = constants_.try_emplace({bits, width == 64, is_local}, 0);
  if (is_new) {
    entry->second = temporary(width == 64 ? 64 : 32);
    draft_.constants.push_back({entry->second, bits, is_local});
  }
  return entry->second;
}

std::uint32_t Drafter::temporary(int bits) {
  draft_.registers.push_back({"", bits});
  return static_cast<std::uint32_t>(draft_.registers.size() - 1);
}

std::uint32_t Drafter::true_predicate() {
  if (draft_.true_predicate == no_slot) draft_.true_predicate = temporary(1);
  return draft_.true_predicate;
}

void Drafter::move_special(const ptx::Operand& operand, std::uint32_t destination) {
  const SpecialRegister special = *special_register(operand.name);
  const int bits = draft_.registers[destination].bits;
  Draft draft = begin(*at_, *known("mov", {bits == 1 ? "pred" : bits == 64 ? "u64" : bits == 16 ? "u16" : "u32"}));
  draft.info.is_pseudo = true;
  draft.info.poison = PoisonRule::none;
  draft.info.form.reads_special = true;
  draft.info.form.destination_bits = bits;
  draft.inst.special = static_cast<std::uint16_t>(special.which);
  draft.inst.imm = special.number;
  refer(draft, Field::d, destination, true);
  draft_.code.push_back(std::move(draft));
}

void Drafter::negate(std::uint32_t source, std::uint32_t destination) {
  Draft draft = begin(*at_, *known("not", {"pred"}));
  draft.info.is_pseudo = true;
  draft.info.form.destination_bits = draft.info.form.source_bits = 1;
  refer(draft, Field::d, destination, true);
  refer(draft, Field::a, source, false);
  draft_.code.push_back(std::move(draft));
}

}  // namespace flashmoe::vgpu::ir
