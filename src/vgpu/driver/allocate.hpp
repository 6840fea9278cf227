// Allocations as the API functions make and find them.
#pragma once

#include "vgpu/driver/state.hpp"

namespace flashmoe::vgpu::driver {

CUresult allocate(State& all, Context& context, std::uint64_t bytes, Owned::Kind kind, const char* what,
                  CUdeviceptr* out, MemoryPool* pool);
CUresult release(State& all, CUdeviceptr address);
// The live allocation that holds the address; nullptr: none.
[[nodiscard]] const std::pair<const std::uint64_t, Owned>* owner_of(const State& all, CUdeviceptr address);
// All bytes lie in device memory, in one live allocation or in a variable of a module.
[[nodiscard]] bool is_device_range(const State& all, CUdeviceptr address, std::size_t bytes);

}  // namespace flashmoe::vgpu::driver
