// Launches as they were before CUDA 4: a function keeps its block, its shared memory and its parameters, and
// cuLaunchGrid says the grid. Deprecated since, and still what old programs and pycuda's older paths call.
#include <cstring>

#include "vgpu/driver/launch.hpp"
#include "vgpu/ir/layout.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

constexpr unsigned most_parameter_bytes = flashmoe::vgpu::ir::kMostEntryParameterBytes;

CUresult with_function(const char* name, CUfunction handle, const std::function<CUresult(Function&)>& body) {
  return with_context(name, [&](State& all, Context&) {
    Function* const function = find_function(all, handle);
    return function == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*function);
  });
}

CUresult set_parameter(const char* name, CUfunction handle, int offset, const void* value, unsigned bytes) {
  return with_function(name, handle, [&](Function& function) {
    std::vector<std::uint8_t>& parameters = function.kept.parameters;
    if (offset < 0 || value == nullptr || bytes > most_parameter_bytes ||
        static_cast<unsigned>(offset) > most_parameter_bytes - bytes)
      return CUDA_ERROR_INVALID_VALUE;
    const std::size_t end = static_cast<std::size_t>(offset) + bytes;
    if (parameters.size() < end) parameters.resize(end);
    std::memcpy(parameters.data() + offset, value, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult launch_kept(const char* name, CUfunction handle, int grid_x, int grid_y, CUstream stream) {
  return with_context(name, [&](State& all, Context& context) {
    Function* const function = find_function(all, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (grid_x <= 0 || grid_y <= 0) return CUDA_ERROR_INVALID_VALUE;
    return launch(all, context, *function,
                  {.grid = {static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y), 1},
                   .block = function->kept.block,
                   .dynamic_shared_bytes = function->kept.shared_bytes,
                   .stream = stream,
                   .gathered = std::make_shared<const std::vector<std::uint8_t>>(function->kept.parameters)});
  });
}

}  // namespace

VGPU_EXPORT CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z) {
  return with_function("cuFuncSetBlockShape", handle, [&](Function& function) {
    if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
    function.kept.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuFuncSetSharedSize(CUfunction handle, unsigned bytes) {
  return with_function("cuFuncSetSharedSize", handle, [&](Function& function) {
    function.kept.shared_bytes = bytes;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuParamSetSize(CUfunction handle, unsigned bytes) {
  return with_function("cuParamSetSize", handle, [&](Function& function) {
    if (bytes > most_parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    function.kept.parameters.resize(bytes);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuParamSeti(CUfunction handle, int offset, unsigned value) {
  return set_parameter("cuParamSeti", handle, offset, &value, sizeof value);
}
VGPU_EXPORT CUresult cuParamSetf(CUfunction handle, int offset, float value) {
  return set_parameter("cuParamSetf", handle, offset, &value, sizeof value);
}
VGPU_EXPORT CUresult cuParamSetv(CUfunction handle, int offset, void* value, unsigned bytes) {
  return set_parameter("cuParamSetv", handle, offset, value, bytes);
}
VGPU_EXPORT CUresult cuLaunch(CUfunction handle) {
  return launch_kept("cuLaunch", handle, 1, 1, nullptr);
}
VGPU_EXPORT CUresult cuLaunchGrid(CUfunction handle, int grid_x, int grid_y) {
  return launch_kept("cuLaunchGrid", handle, grid_x, grid_y, nullptr);
}
VGPU_EXPORT CUresult cuLaunchGridAsync(CUfunction handle, int grid_x, int grid_y, CUstream stream) {
  return launch_kept("cuLaunchGridAsync", handle, grid_x, grid_y, stream);
}
