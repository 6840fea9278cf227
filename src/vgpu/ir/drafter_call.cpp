// call (PTX ISA 9.7.12.5). Arguments and results pass through .param variables of the caller; where registers or
// constants are written, lowering puts a .param variable, st.param and ld.param around the call.
#include <fmt/format.h>

#include <algorithm>

#include "vgpu/ir/builtins.hpp"
#include "vgpu/ir/drafter.hpp"

namespace flashmoe::vgpu::ir {

std::optional<Drafter::Callee> Drafter::callee(const ptx::Instruction& instruction, std::size_t operand, Draft& draft) {
  const ptx::Operand& target = instruction.operands[operand];
  const Symbol symbol = scopes_.find(target.name);
  if (target.kind == ptx::Operand::Kind::identifier && symbol.kind == Symbol::Kind::function) {
    if (symbol.function->is_entry) {
      fail(target.at, fmt::format("{} is an entry: only .func functions can be called", target.name));
      return std::nullopt;
    }
    if (symbol.function->is_declaration && launches_kernels(target.name)) {
      draft_.unsupported.push_back(
          located(target.at, "it launches kernels from the device, which is not supported", ""));
      return std::nullopt;
    }
    if (symbol.function->is_declaration && !is_builtin(symbol.function->name)) {
      fail(target.at, defined_nowhere(target.name));
      return std::nullopt;
    }
    return Callee{context_.function_number(*symbol.function), &symbol.function->returns, &symbol.function->parameters};
  }
  if (target.kind != ptx::Operand::Kind::identifier || symbol.kind != Symbol::Kind::reg ||
      !draft_.registers[symbol.number].is_wide()) {
    fail(target.at, fmt::format("{} is neither a function nor a 64-bit register", target.name));
    return std::nullopt;
  }
  const Symbol prototype =
      instruction.operands.size() > operand + 1 ? scopes_.find(instruction.operands.back().name) : Symbol{};
  if (prototype.kind != Symbol::Kind::targets) {
    fail(instruction.at, "an indirect call needs a .callprototype or .calltargets as its last operand");
    return std::nullopt;
  }
  refer(draft, Field::a, symbol.number, false);
  draft.info.form.source_bits = 64;
  if (prototype.targets->kind == ptx::TargetList::Kind::prototype)
    return Callee{no_slot, &prototype.targets->returns, &prototype.targets->parameters};
  // All functions of .calltargets have the same parameters.
  const ptx::Function* first =
      prototype.targets->targets.empty() ? nullptr : context_.index->function(prototype.targets->targets[0]);
  if (first == nullptr) {
    fail(prototype.targets->at, fmt::format("{} names no function", prototype.targets->name));
    return std::nullopt;
  }
  return Callee{no_slot, &first->returns, &first->parameters};
}

std::optional<Draft> Drafter::parameter_move(const ptx::Instruction& instruction, bool is_load, Type type,
                                             std::uint32_t name, std::uint32_t offset) {
  const Known* form = known(is_load ? "ld" : "st", {"param", std::string(name_of(type))});
  if (form == nullptr) return std::nullopt;
  Draft draft = begin(instruction, *form);
  if (!guard(instruction, draft)) return std::nullopt;
  draft.info.is_pseudo = true;
  draft.inst.imm = offset;
  draft.inst.frame_parameter = true;
  draft.inst.size = static_cast<std::uint16_t>(bits_of(type) / 8);
  (is_load ? draft.info.form.destination_bits : draft.info.form.source_bits) = draft_.registers[name].bits;
  refer(draft, is_load ? Field::d : Field::b, name, is_load);
  return draft;
}

std::optional<std::uint32_t> Drafter::argument(const ptx::Instruction& instruction, const ptx::Operand& operand,
                                               const ptx::Variable& formal, bool is_return, std::vector<Draft>& after) {
  const bool is_name = operand.kind == ptx::Operand::Kind::identifier;
  const Symbol symbol = is_name ? scopes_.find(operand.name) : Symbol{};
  if (symbol.kind == Symbol::Kind::frame_parameter) {
    if (bytes_of(*symbol.variable) >= bytes_of(formal)) return static_cast<std::uint32_t>(symbol.offset);
    fail(operand.at, fmt::format("{} has {} bytes, the function's parameter {}", operand.name,
                                 bytes_of(*symbol.variable), bytes_of(formal)));
    return std::nullopt;
  }
  const Type type = type_of(formal.type);
  OperandSpec spec;
  spec.field = is_return ? Field::d : Field::a;
  if (!formal.dims.empty() || formal.vector > 1 || !fits_scalar(spec, operand, std::max(bits_of(type), 16), true)) {
    fail(operand.at, fmt::format("{} cannot be passed as .{}", describe(operand), formal.type));
    return std::nullopt;
  }
  const std::uint32_t offset = scopes_.call_area(formal);
  const std::optional<std::uint32_t> name = is_return ? std::optional(symbol.number) : value(operand, type);
  if (!name) return std::nullopt;
  std::optional<Draft> move = parameter_move(instruction, is_return, type, *name, offset);
  if (!move) return std::nullopt;
  (is_return ? after : draft_.code).push_back(std::move(*move));
  return offset;
}

bool Drafter::call(const ptx::Instruction& instruction, Draft draft) {
  const std::vector<ptx::Operand>& operands = instruction.operands;
  const auto is_list = [&](std::size_t i) {
    return i < operands.size() && operands[i].kind == ptx::Operand::Kind::list;
  };
  const std::size_t target = is_list(0) ? 1 : 0;
  if (target >= operands.size()) return fail(instruction.at, "a call needs a function");
  const std::optional<Callee> to = callee(instruction, target, draft);
  if (!to) return false;
  const std::vector<ptx::Operand> nothing;
  const std::vector<ptx::Operand>& returns = is_list(0) ? operands[0].parts : nothing;
  const std::vector<ptx::Operand>& arguments = is_list(target + 1) ? operands[target + 1].parts : nothing;
  if (returns.size() != to->returns->size() || arguments.size() != to->parameters->size())
    return fail(instruction.at, fmt::format("{} results and {} arguments, the function has {} and {}", returns.size(),
                                            arguments.size(), to->returns->size(), to->parameters->size()));
  const ParameterArea area = parameter_area(*to->returns, *to->parameters);
  draft.list = {static_cast<std::uint32_t>(returns.size()), static_cast<std::uint32_t>(arguments.size())};
  std::vector<Draft> after;
  const auto pass = [&](const std::vector<ptx::Operand>& actual, const std::vector<ptx::Variable>& formal,
                        const std::vector<std::uint32_t>& offsets, bool is_return) {
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const std::optional<std::uint32_t> offset = argument(instruction, actual[i], formal[i], is_return, after);
      if (!offset) return false;
      draft.list.insert(draft.list.end(), {*offset, offsets[i], bytes_of(formal[i])});
    }
    return true;
  };
  if (!pass(returns, *to->returns, area.returns, true) || !pass(arguments, *to->parameters, area.parameters, false))
    return false;
  draft.inst.target = to->number;
  draft_.code.push_back(std::move(draft));
  for (Draft& move : after) draft_.code.push_back(std::move(move));
  return true;
}

}  // namespace flashmoe::vgpu::ir
