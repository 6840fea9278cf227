#include "vgpu/driver/registered.hpp"

#include <cstring>

#include "vgpu/driver/allocate.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// The context that a mirror was made in may be gone, and the mirror with it.
bool has_mirror(const State& all, const Registered& memory) {
  return memory.mirror != 0 && owner_of(all, memory.mirror) != nullptr;
}

}  // namespace

CUdeviceptr mirror_of(State& all, Context& context, const void* host) {
  auto after = all.registered.upper_bound(host);
  if (after == all.registered.begin()) return 0;
  auto& [first, memory] = *std::prev(after);
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::uint8_t*>(host) - static_cast<const std::uint8_t*>(first));
  if (offset >= memory.bytes) return 0;
  if (!has_mirror(all, memory)) {
    memory.mirror = 0;
    if (allocate(all, context, memory.bytes, Owned::Kind::host, "cuMemHostRegister", &memory.mirror, nullptr) !=
        CUDA_SUCCESS)
      return 0;
  }
  return memory.mirror + offset;
}

std::uint64_t behind_mirror(const State& all, std::uint64_t address) {
  for (const auto& [host, memory] : all.registered) {
    if (has_mirror(all, memory) && address - memory.mirror < memory.bytes)
      return reinterpret_cast<std::uint64_t>(host) + (address - memory.mirror);
  }
  return address;
}

Mirrors::Mirrors(const State& all) {
  for (const auto& [host, memory] : all.registered) {
    if (!has_mirror(all, memory)) continue;
    auto* const own = static_cast<std::uint8_t*>(const_cast<void*>(host));
    auto* const device = reinterpret_cast<std::uint8_t*>(memory.mirror);
    mirrors_.push_back({.host = own, .device = device, .before = {own, own + memory.bytes}});
    std::memcpy(device, mirrors_.back().before.data(), memory.bytes);
  }
}

// Only what was changed: other threads of the host may have written beside it meanwhile.
Mirrors::~Mirrors() {
  for (const Mirror& mirror : mirrors_) {
    for (std::size_t i = 0; i < mirror.before.size(); ++i) {
      if (mirror.device[i] != mirror.before[i]) mirror.host[i] = mirror.device[i];
    }
  }
}

}  // namespace flashmoe::vgpu::driver
