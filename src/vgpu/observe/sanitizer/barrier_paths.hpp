// Which code lies behind a barrier for good: it follows the barrier, and the barrier does not follow it. Whoever runs
// it without having come to the barrier has gone past it; code before it, or beside it, says nothing.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::observe {

class BarrierPaths {
 public:
  void kernel_begins() { behind_.clear(); }
  // Both within one function; a call is a step to the instruction after it.
  [[nodiscard]] bool is_behind(const ir::Kernel& kernel, std::uint32_t barrier, std::uint32_t pc);

 private:
  std::unordered_map<std::uint32_t, std::vector<bool>> behind_{};  // by barrier, then pc
};

}  // namespace flashmoe::vgpu::observe
