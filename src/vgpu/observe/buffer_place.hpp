// Where an address lies, as the program sees it: which allocation, and which of the kernel's arguments points there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::observe {

struct BufferPlace {
  std::string what{};  // "cuMemAlloc #3"
  std::uint64_t bytes = 0;
  std::int64_t offset = 0;                  // of the address; beyond `bytes`: behind the end
  std::optional<std::uint32_t> argument{};  // 0: the first
};

// nullopt: no allocation lies at the address or before it.
[[nodiscard]] std::optional<BufferPlace> buffer_place(const exec::Launch& launch, const memory::DeviceMemory& memory,
                                                      std::uint64_t address);

}  // namespace flashmoe::vgpu::observe
