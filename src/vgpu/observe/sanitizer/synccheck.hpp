// Barriers, masks and waits that cannot mean what they say. Exec notices them; this puts them into words.
#pragma once

#include <string_view>

#include "vgpu/exec/observer.hpp"
#include "vgpu/observe/finding.hpp"

namespace flashmoe::vgpu::observe {

class Synccheck {
 public:
  explicit Synccheck(FindingLog& log) : log_(log) {}
  void problem(const exec::Warp& warp, exec::SyncProblem problem, std::uint32_t pc, std::string_view detail);

 private:
  FindingLog& log_;
};

}  // namespace flashmoe::vgpu::observe
