#include <fmt/format.h>

#include "vgpu/ir/builtins.hpp"
#include "vgpu/ir/draft.hpp"
#include "vgpu/ir/lower.hpp"

namespace flashmoe::vgpu::ir {

// A function is right when it can be drafted: the same code decides here and in lower(). Addresses are not known yet,
// so any will do.
Result<Done> verify(const ptx::Module& module) {
  const ModuleIndex index(module);
  DraftContext context;
  context.index = &index;
  context.address_of = [](std::string_view) { return std::uint64_t{1}; };
  context.function_address = context.address_of;
  context.function_number = [](const ptx::Function&) { return 0u; };
  std::vector<Diagnostic> errors;
  for (const ptx::Function& function : module.functions) {
    if (function.is_declaration) {
      if (const Result<Done> right = check_builtin(function, module.name); !right) errors.push_back(right.error());
      continue;
    }
    const ptx::Function* const only[] = {&function};
    const SharedLayout shared = shared_layout(module, only);
    context.shared = &shared;
    FunctionDraft draft = draft_function(context, function);
    errors.insert(errors.end(), draft.errors.begin(), draft.errors.end());
  }
  if (errors.empty()) return Done{};
  Diagnostic first = errors.front();
  if (errors.size() > 1) first.message += fmt::format(" (and {} more errors)", errors.size() - 1);
  return first;
}

}  // namespace flashmoe::vgpu::ir
