// cuGetProcAddress; apart from entry_points.cpp, which declares every symbol without its arguments.
#include "vgpu/driver/cuda_abi.hpp"
#include "vgpu/driver/entry_points.hpp"
#include "vgpu/driver/implementations.hpp"
#include "vgpu/driver/log.hpp"

VGPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version, std::uint64_t flags,
                                         int* status) {
  return static_cast<CUresult>(flashmoe::vgpu::driver::find_entry_point(symbol, function, cuda_version, flags, status));
}
VGPU_EXPORT CUresult cuGetProcAddress(const char* symbol, void** function, int cuda_version, std::uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, cuda_version, flags, nullptr);
}

VGPU_EXPORT CUresult cuGetExportTable(const void** /*table*/, const CUuuid* /*id*/) {
  flashmoe::vgpu::driver::log_once(
      "something asked for undocumented tables of NVIDIA's driver, as NVIDIA's own CUDA runtime (cudart, <<<>>>) does: "
      "CUDA_ERROR_NOT_SUPPORTED; its calls will fail, those of the driver API are not touched by it (fix: link the "
      "program "
      "with nvcc -cudart shared, or CMake's CUDA_RUNTIME_LIBRARY Shared, and start it by cudadent run)");
  return CUDA_ERROR_NOT_SUPPORTED;
}
