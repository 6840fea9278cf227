#include <fmt/format.h>

#include <unordered_map>

#include "vgpu/ir/builtins.hpp"
#include "vgpu/ir/draft.hpp"
#include "vgpu/ir/lower.hpp"
#include "vgpu/ir/reach.hpp"

namespace flashmoe::vgpu::ir {

namespace {

Unsupported entries_that_reach(const ModuleIndex& index,
                               const std::unordered_map<const ptx::Function*, Diagnostic>& unsupported) {
  Unsupported entries;
  for (const ptx::Function& entry : index.module->functions) {
    if (unsupported.empty() || !entry.is_entry || entry.is_declaration) continue;
    for (const ptx::Function* function : reach(index, entry).functions)
      if (const auto found = unsupported.find(function); found != unsupported.end())
        entries.emplace(entry.name, found->second);
  }
  return entries;
}

}  // namespace

// A function is right when it can be drafted: the same code decides here and in lower(). Addresses are not known yet,
// so any will do.
Result<Unsupported> verify(const ptx::Module& module) {
  const ModuleIndex index(module);
  DraftContext context;
  context.index = &index;
  context.address_of = [](std::string_view) { return std::uint64_t{1}; };
  context.function_address = context.address_of;
  context.function_number = [](const ptx::Function&) { return 0u; };
  context.describes = false;
  std::vector<Diagnostic> errors;
  std::unordered_map<const ptx::Function*, Diagnostic> unsupported;
  for (const ptx::Function& function : module.functions) {
    if (function.is_declaration) {
      if (const Result<Done> right = check_builtin(function, module.name); !right) errors.push_back(right.error());
      continue;
    }
    const ptx::Function* const only[] = {&function};
    const SharedLayout shared = shared_layout(module, only);
    context.shared = &shared;
    FunctionDraft draft = draft_function(context, function);
    // What else is wrong with such a function may only follow from it.
    if (!draft.unsupported.empty()) {
      unsupported.emplace(&function, draft.unsupported.front());
    } else {
      errors.insert(errors.end(), draft.errors.begin(), draft.errors.end());
    }
  }
  if (errors.empty()) return entries_that_reach(index, unsupported);
  Diagnostic first = errors.front();
  if (errors.size() > 1) first.message += fmt::format(" (and {} more errors)", errors.size() - 1);
  return first;
}

}  // namespace flashmoe::vgpu::ir
