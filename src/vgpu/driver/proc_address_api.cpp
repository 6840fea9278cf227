// cuGetProcAddress; apart from entry_points.cpp, which declares every symbol without its arguments.
#include <cstdlib>

#include "vgpu/driver/cuda_abi.hpp"
#include "vgpu/driver/entry_points.hpp"
#include "vgpu/driver/implementations.hpp"
#include "vgpu/driver/launch.hpp"
#include "vgpu/driver/log.hpp"

VGPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version, std::uint64_t flags,
                                         int* status) {
  return static_cast<CUresult>(flashmoe::vgpu::driver::find_entry_point(symbol, function, cuda_version, flags, status));
}
VGPU_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int cuda_version, std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, cuda_version, flags, nullptr);
}

namespace {

// Bindings ask for them and go on without; where kernels ran nothing was missing. Whose runtime wants them launches
// none.
void tell_if_nothing_ran() {
  if (flashmoe::vgpu::driver::has_launched()) return;
  flashmoe::vgpu::driver::log_line(
      "something asked for undocumented tables of NVIDIA's driver, as NVIDIA's own CUDA runtime (cudart, <<<>>>) does, "
      "and no kernel was launched: its calls fail, those of the driver API are not touched by it (fix: link the "
      "program "
      "with nvcc -cudart shared, or CMake's CUDA_RUNTIME_LIBRARY Shared, and start it by cudadent run)");
}

}  // namespace

VGPU_EXPORT CUresult cuGetExportTable(const void** /*table*/, const CUuuid* /*id*/) {
  static const int registered = std::atexit(tell_if_nothing_ran);
  static_cast<void>(registered);
  return CUDA_ERROR_NOT_SUPPORTED;
}
