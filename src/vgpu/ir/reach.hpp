// Which functions an entry can come to.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "vgpu/ir/draft.hpp"

namespace flashmoe::vgpu::ir {

struct Reach {
  std::vector<const ptx::Function*> functions{};     // the entry first
  std::unordered_set<const ptx::Function*> taken{};  // whose address is taken somewhere in the module
};
[[nodiscard]] Reach reach(const ModuleIndex& index, const ptx::Function& entry);

}  // namespace flashmoe::vgpu::ir
