#include "vgpu/observe/buffer_place.hpp"

#include <cstring>

namespace flashmoe::vgpu::observe {
namespace {

// The first argument that holds an address inside; pointers in a struct count for the struct.
std::optional<std::uint32_t> argument_into(const exec::Launch& launch, const memory::Allocation& allocation) {
  const auto& parameters = launch.kernel->parameters;
  for (std::uint32_t i = 0; i < parameters.size(); ++i) {
    for (std::uint32_t at = 0; at + sizeof(std::uint64_t) <= parameters[i].bytes; at += sizeof(std::uint64_t)) {
      const std::size_t offset = std::size_t{parameters[i].offset} + at;
      if (offset + sizeof(std::uint64_t) > launch.parameters.size()) break;
      std::uint64_t value = 0;
      std::memcpy(&value, launch.parameters.data() + offset, sizeof value);
      if (value - allocation.address < allocation.bytes) return i;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<BufferPlace> buffer_place(const exec::Launch& launch, const memory::DeviceMemory& memory,
                                        std::uint64_t address) {
  const auto allocation = memory.nearest(address);
  if (!allocation) return std::nullopt;
  return BufferPlace{.what = allocation->what,
                     .bytes = allocation->bytes,
                     .offset = static_cast<std::int64_t>(address - allocation->address),
                     .argument = argument_into(launch, *allocation)};
}

}  // namespace flashmoe::vgpu::observe
