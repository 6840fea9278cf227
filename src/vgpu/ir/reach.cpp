#include "vgpu/ir/reach.hpp"

namespace flashmoe::vgpu::ir {
namespace {

const ptx::Operand* call_target(const ptx::Instruction& instruction) {
  if (instruction.opcode != "call") return nullptr;
  for (const ptx::Operand& operand : instruction.operands)
    if (operand.kind == ptx::Operand::Kind::identifier) return &operand;
  return nullptr;
}

// Functions named otherwise than as the target of a call, in code or in an initialiser.
std::unordered_set<const ptx::Function*> taken_functions(const ModuleIndex& index) {
  std::unordered_set<const ptx::Function*> taken;
  const auto add = [&](const ptx::Operand& operand) {
    if (operand.name.empty()) return;
    if (const ptx::Function* function = index.function(operand.name)) taken.insert(function);
  };
  for (const ptx::Variable& variable : index.module->variables) walk(variable.initial, add);
  for (const ptx::Function& function : index.module->functions) {
    walk(
        function.body,
        [&](const ptx::Instruction& instruction) {
          const ptx::Operand* target = call_target(instruction);
          walk(instruction.operands, [&](const ptx::Operand& operand) {
            if (&operand != target) add(operand);
          });
        },
        [](const ptx::Variable&) {});
  }
  return taken;
}

}  // namespace

ModuleIndex::ModuleIndex(const ptx::Module& of) : module(&of) {
  for (const ptx::Function& function : of.functions) {
    const auto [entry, is_new] = functions_.try_emplace(function.name, &function);
    if (!is_new && entry->second->is_declaration) entry->second = &function;
  }
  for (const auto& [alias, name] : of.aliases)
    if (const auto found = functions_.find(name); found != functions_.end()) functions_[alias] = found->second;
  for (const ptx::Variable& variable : of.variables) {
    const auto [entry, is_new] = variables_.try_emplace(variable.name, &variable);
    if (!is_new && entry->second->is_extern) entry->second = &variable;
  }
}

const ptx::Function* ModuleIndex::function(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : found->second;
}

const ptx::Variable* ModuleIndex::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : found->second;
}

Reach reach(const ModuleIndex& index, const ptx::Function& entry) {
  Reach result;
  result.taken = taken_functions(index);
  std::unordered_set<const ptx::Function*> seen{&entry};
  result.functions.push_back(&entry);
  const auto add = [&](const ptx::Function* function) {
    if (function != nullptr && !function->is_entry && seen.insert(function).second)
      result.functions.push_back(function);
  };
  for (std::size_t i = 0; i < result.functions.size(); ++i) {
    walk(
        result.functions[i]->body,
        [&](const ptx::Instruction& instruction) {
          const ptx::Operand* target = call_target(instruction);
          if (target == nullptr) return;
          if (const ptx::Function* function = index.function(target->name)) return add(function);
          // Through a register it may go to any function whose address is known anywhere.
          for (const ptx::Function& function : index.module->functions)
            if (result.taken.contains(&function)) add(&function);
        },
        [](const ptx::Variable&) {});
  }
  return result;
}

}  // namespace flashmoe::vgpu::ir
