// The line a person wrote: where an instruction stands in the CUDA source. What the toolkit's own headers inlined
// (atomicAdd, __shfl_sync) is told by the line that called it.
#pragma once

#include <string>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::observe {

struct SourcePlace {
  std::string file{};
  int line = 0;           // 0: unknown
  std::string inlined{};  // the way there, readable; empty when nothing was inlined or only the toolkit was
};

[[nodiscard]] SourcePlace source_place(const ir::Kernel& kernel, const ir::InstInfo& info);

}  // namespace flashmoe::vgpu::observe
