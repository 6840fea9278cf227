#include "vgpu/driver/link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>

namespace flashmoe::vgpu::driver {
namespace {

using Names = std::map<std::string, std::string>;

void rename(std::string& name, const Names& names) {
  if (const auto found = names.find(name); found != names.end()) name = found->second;
}

void rename(ptx::Operand& operand, const Names& names) {
  rename(operand.name, names);
  for (ptx::Operand& part : operand.parts) rename(part, names);
}

// A name declared in the body hides the module's.
void rename(ptx::Block& block, Names names) {
  for (const ptx::Statement& statement : block.statements)
    if (const auto* variable = std::get_if<ptx::Variable>(&statement.what)) names.erase(variable->name);
  for (ptx::Statement& statement : block.statements) {
    if (auto* instruction = std::get_if<ptx::Instruction>(&statement.what)) {
      for (ptx::Operand& operand : instruction->operands) rename(operand, names);
    } else if (auto* list = std::get_if<ptx::TargetList>(&statement.what)) {
      for (std::string& target : list->targets) rename(target, names);
    } else if (auto* inner = std::get_if<ptx::Block>(&statement.what)) {
      rename(*inner, names);
    }
  }
}

bool is_shared_name(const ptx::Function& function) {
  return function.is_visible || function.is_weak || function.is_extern || function.is_entry;
}
bool is_shared_name(const ptx::Variable& variable) {
  return variable.is_visible || variable.is_weak || variable.is_extern || variable.is_common;
}
bool is_definition(const ptx::Function& function) {
  return !function.is_declaration;
}
bool is_definition(const ptx::Variable& variable) {
  return !variable.is_extern;
}

void make_private_names_unique(ptx::Module& module, std::size_t number, const std::set<std::string>& taken) {
  Names names;
  const auto collect = [&](const auto& all) {
    for (const auto& one : all)
      if (!is_shared_name(one) && taken.contains(one.name))
        names[one.name] = fmt::format("{}$part{}", one.name, number);
  };
  collect(module.functions);
  collect(module.variables);
  if (names.empty()) return;
  for (ptx::Variable& variable : module.variables) {
    rename(variable.name, names);
    for (ptx::Operand& value : variable.initial) rename(value, names);
  }
  for (ptx::Function& function : module.functions) {
    rename(function.name, names);
    rename(function.body, names);
  }
  for (auto& [name, target] : module.aliases) rename(target, names);
}

// File numbers of the parts are made distinct, so that a source line keeps its file.
void shift_files(ptx::Module& module, int by) {
  for (ptx::File& file : module.files) file.index += by;
  for (ptx::Function& function : module.functions)
    for (ptx::SourceLocation& location : function.sources) {
      std::shared_ptr<ptx::SourceLocation> caller;
      if (location.file != 0) location.file += by;
      // The chain of inlining is shared and constant: copy what changes.
      std::vector<ptx::SourceLocation> chain;
      for (const auto* up = location.inlined_at.get(); up != nullptr; up = up->inlined_at.get()) chain.push_back(*up);
      std::shared_ptr<const ptx::SourceLocation> made;
      for (auto step = chain.rbegin(); step != chain.rend(); ++step) {
        if (step->file != 0) step->file += by;
        step->inlined_at = made;
        made = std::make_shared<const ptx::SourceLocation>(*step);
      }
      location.inlined_at = made;
    }
}

// Adds one function or variable; false: there is a definition of that name already, and neither is weak.
template <class T>
bool add(std::vector<T>& all, T one) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const T& other) { return other.name == one.name; });
  if (same == all.end()) {
    all.push_back(std::move(one));
    return true;
  }
  if (!is_definition(one)) return true;
  if (!is_definition(*same)) {
    *same = std::move(one);
    return true;
  }
  if (same->is_weak && !one.is_weak) {
    *same = std::move(one);
    return true;
  }
  if constexpr (std::is_same_v<T, ptx::Variable>) {
    // An unsized extern shared array is declared by every module that uses it; .common variables merge.
    if (same->is_common && one.is_common) return true;
  }
  return one.is_weak;
}

}  // namespace

Result<ptx::Module> link(std::vector<ptx::Module> parts) {
  if (parts.empty()) return Diagnostic{.message = "nothing to link", .fix = "add PTX with cuLinkAddData"};
  if (parts.size() == 1) return std::move(parts[0]);
  std::set<std::string> taken;
  int files = 0;
  ptx::Module whole = parts[0];
  whole.files.clear();
  whole.variables.clear();
  whole.functions.clear();
  whole.aliases.clear();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ptx::Module& part = parts[i];
    make_private_names_unique(part, i + 1, taken);
    shift_files(part, files);
    for (const ptx::File& file : part.files) files = std::max(files, file.index);
    whole.files.insert(whole.files.end(), part.files.begin(), part.files.end());
    whole.aliases.insert(whole.aliases.end(), part.aliases.begin(), part.aliases.end());
    for (ptx::Variable& variable : part.variables) {
      taken.insert(variable.name);
      const std::string name = variable.name;
      if (!add(whole.variables, std::move(variable)))
        return Diagnostic{.message = fmt::format("variable \"{}\" is defined in more than one module", name)};
    }
    for (ptx::Function& function : part.functions) {
      taken.insert(function.name);
      const std::string name = function.name;
      if (!add(whole.functions, std::move(function)))
        return Diagnostic{.message = fmt::format("function \"{}\" is defined in more than one module", name)};
    }
  }
  return whole;
}

}  // namespace flashmoe::vgpu::driver
