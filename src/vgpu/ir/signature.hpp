// What passes between a caller and a function: where each result and argument lies in the callee's parameter area.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

struct Signature {
  struct Place {
    std::uint32_t offset = 0, bytes = 0;
  };
  std::vector<Place> results{}, arguments{};
  // Bytes of each, and the offset where there is a gap before it: "(4) name(8 at 8, 4)".
  [[nodiscard]] std::string text(const std::string& name) const;
};

[[nodiscard]] Signature signature_of(std::span<const ptx::Variable> returns, std::span<const ptx::Variable> parameters);

}  // namespace flashmoe::vgpu::ir
