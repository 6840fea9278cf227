// Functions by name, for cuGetProcAddress.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::driver {

// The newest variant that is not newer than `cuda_version`; returns a CUresult. `status` (may be nullptr) gets a
// CUdriverProcAddressQueryResult.
int find_entry_point(const char* asked, void** function, int cuda_version, std::uint64_t flags, int* status);

}  // namespace flashmoe::vgpu::driver
