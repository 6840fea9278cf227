// Functions by name, for cuGetProcAddress, and by their place in the table.
#pragma once

#include <cstdint>

namespace flashmoe::vgpu::driver {

struct EntryPoint {
  const char* exported = "";
  void* implemented = nullptr;
};
// By its row in symbols.def, counted from 0.
[[nodiscard]] EntryPoint entry_point(unsigned row);

// The newest variant that is not newer than `cuda_version`; returns a CUresult. `status` (may be nullptr) gets a
// CUdriverProcAddressQueryResult.
int find_entry_point(const char* asked, void** function, int cuda_version, std::uint64_t flags, int* status);

}  // namespace flashmoe::vgpu::driver
