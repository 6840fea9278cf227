// Names of special registers (PTX ISA 10).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::ir {

struct SpecialRegister {
  Special which = Special::none;
  int bits = 32;
  std::int64_t number = 0;  // of %envreg
};
[[nodiscard]] std::optional<SpecialRegister> special_register(std::string_view name);

}  // namespace flashmoe::vgpu::ir
