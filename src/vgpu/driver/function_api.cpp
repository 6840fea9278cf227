// What a kernel is like, and how many of its CTAs fit: attributes, parameters, occupancy.
#include <algorithm>
#include <optional>

#include "devices/occupancy.hpp"
#include "vgpu/driver/launch.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/module.hpp"

using namespace flashmoe;
using namespace flashmoe::vgpu::driver;
namespace ir = flashmoe::vgpu::ir;
namespace ptx = flashmoe::vgpu::ptx;

namespace {

using WithKernel = std::function<CUresult(State&, Function&, const ir::Kernel&)>;

CUresult with_kernel(const char* function_name, const void* handle, const WithKernel& body) {
  return with_driver(function_name, [&](State& all) {
    Function* const function = find_function(all, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Context* const context = function->module->context != nullptr ? function->module->context : current_context();
    if (context != nullptr && context->sticky != CUDA_SUCCESS) return context->sticky;
    const auto kernel = lowered(*function);
    if (!kernel) {
      log_line(kernel.error().to_string());
      return CUDA_ERROR_INVALID_PTX;
    }
    return body(all, *function, **kernel);
  });
}

// How many CTAs fit is asked of the device whose context is current.
CUresult with_resident_kernel(const char* function_name, const void* handle, const WithKernel& body) {
  return with_context(function_name, [&](State&, Context&) { return with_kernel(function_name, handle, body); });
}

// Whose limits a CUfunction goes by; a CUkernel that stands for one has none of its own.
CUdevice device_of(const Function& function) {
  const Context* const context = function.module->context != nullptr ? function.module->context : current_context();
  return context == nullptr ? 0 : context->device;
}

int max_threads(const Function& function, const ir::Kernel& kernel) {
  const int limit = function.module->machine->architecture.max_threads_per_cta;
  const auto required =
      static_cast<int>(kernel.required_threads[0] * kernel.required_threads[1] * kernel.required_threads[2]);
  if (required > 0) return std::min(limit, required);
  return kernel.max_threads > 0 ? std::min(limit, static_cast<int>(kernel.max_threads)) : limit;
}

std::optional<int> attribute(Function& function, const ir::Kernel& kernel, int which, CUdevice device) {
  const ptx::Module& ptx = function.module->ptx;
  const bool of_ptxas = which == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES || which == CU_FUNC_ATTRIBUTE_NUM_REGS;
  const CubinKernel* const built = of_ptxas ? compiled(function) : nullptr;
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return max_threads(function, kernel);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return static_cast<int>(kernel.static_shared_bytes);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
      std::uint64_t bytes = 0;
      for (const ptx::Variable& variable : ptx.variables)
        if (variable.space == "const") bytes += function.module->globals.find(variable.name)->second.bytes;
      return static_cast<int>(bytes);
    }
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      // Without ptxas only the arrays that the PTX itself declares are known.
      return built != nullptr ? static_cast<int>(built->frame_bytes)
                              : static_cast<int>(kernel.functions[0].local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return built != nullptr ? built->registers : 0;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: {
      // Of the target, as on a device: 89 for .target sm_89.
      int target = 0;
      for (const std::string& name : ptx.targets)
        if (name.starts_with("sm_")) target = std::atoi(name.c_str() + 3);
      return target;
    }
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return function.module->machine->sm();
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return function.max_dynamic_shared_bytes(device);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return function.carveout;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return function.non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      return 0;
    default:
      return std::nullopt;
  }
}

CUresult get_attribute(const char* name, int* value, int which, const void* handle, std::optional<CUdevice> device) {
  return with_kernel(name, handle, [&](State& all, Function& function, const ir::Kernel& kernel) {
    if (device && !all.has(*device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto known = attribute(function, kernel, which, device.value_or(device_of(function)));
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

CUresult set_attribute(const char* name, const void* handle, int which, int value, std::optional<CUdevice> device) {
  return with_kernel(name, handle, [&](State& all, Function& function, const ir::Kernel& kernel) {
    if (device && !all.has(*device)) return CUDA_ERROR_INVALID_DEVICE;
    if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
      const int most =
          all.machine->architecture.shared_bytes_per_cta_optin - static_cast<int>(kernel.static_shared_bytes);
      if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
      function.raised_dynamic_shared_bytes[device.value_or(device_of(function))] = value;
    } else if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function.carveout = value;
    } else if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
      function.non_portable_cluster = value;
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

CUresult parameter_info(const char* name, const void* handle, std::size_t index, std::size_t* offset,
                        std::size_t* bytes) {
  return with_kernel(name, handle, [&](State&, Function&, const ir::Kernel& kernel) {
    if (offset == nullptr || index >= kernel.parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = kernel.parameters[index].offset;
    if (bytes != nullptr) *bytes = kernel.parameters[index].bytes;
    return CUDA_SUCCESS;
  });
}

CUresult give_name(const char* api, const char** name, const void* handle) {
  return with_driver(api, [&](State& all) {
    const Function* const function = find_function(all, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
  });
}

}  // namespace

namespace flashmoe::vgpu::driver {

int resident_ctas(Function& function, const ir::Kernel& kernel, std::int64_t threads, std::int64_t dynamic_bytes,
                  bool may_compile) {
  const CubinKernel* const built = compiled(function, may_compile);
  const KernelResources need{.registers = built != nullptr ? built->registers : 0,
                             .threads = static_cast<int>(std::min<std::int64_t>(threads, 1 << 20)),
                             .static_shared_bytes = kernel.static_shared_bytes,
                             .dynamic_shared_bytes = dynamic_bytes,
                             .barriers = built != nullptr ? built->barriers : 1};
  return occupancy(function.module->machine->architecture, need).ctas_per_sm;
}

}  // namespace flashmoe::vgpu::driver

VGPU_EXPORT CUresult cuFuncGetAttribute(int* value, int which, CUfunction handle) {
  return get_attribute("cuFuncGetAttribute", value, which, handle, std::nullopt);
}
VGPU_EXPORT CUresult cuKernelGetAttribute(int* value, int which, CUkernel handle, CUdevice device) {
  return get_attribute("cuKernelGetAttribute", value, which, handle, device);
}
VGPU_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, int which, int value) {
  return set_attribute("cuFuncSetAttribute", handle, which, value, std::nullopt);
}
VGPU_EXPORT CUresult cuKernelSetAttribute(int which, int value, CUkernel handle, CUdevice device) {
  return set_attribute("cuKernelSetAttribute", handle, which, value, device);
}
VGPU_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, int /*preference*/) {
  return with_kernel("cuFuncSetCacheConfig", handle, [](State&, Function&, const ir::Kernel&) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuKernelSetCacheConfig(CUkernel handle, int /*preference*/, CUdevice /*device*/) {
  return with_kernel("cuKernelSetCacheConfig", handle,
                     [](State&, Function&, const ir::Kernel&) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, int /*config*/) {
  return with_kernel("cuFuncSetSharedMemConfig", handle,
                     [](State&, Function&, const ir::Kernel&) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuFuncGetModule(CUmodule* out, CUfunction handle) {
  return with_driver("cuFuncGetModule", [&](State& all) {
    const Function* const function = find_function(all, handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUmodule>(function->module);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuFuncGetName(const char** name, CUfunction handle) {
  return give_name("cuFuncGetName", name, handle);
}
VGPU_EXPORT CUresult cuKernelGetName(const char** name, CUkernel handle) {
  return give_name("cuKernelGetName", name, handle);
}
VGPU_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  return parameter_info("cuFuncGetParamInfo", handle, index, offset, bytes);
}
VGPU_EXPORT CUresult cuKernelGetParamInfo(CUkernel handle, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  return parameter_info("cuKernelGetParamInfo", handle, index, offset, bytes);
}
VGPU_EXPORT CUresult cuFuncIsLoaded(int* loaded, CUfunction handle) {
  return with_kernel("cuFuncIsLoaded", handle, [&](State&, Function&, const ir::Kernel&) {
    if (loaded == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *loaded = 1;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuFuncLoad(CUfunction handle) {
  return with_kernel("cuFuncLoad", handle, [](State&, Function&, const ir::Kernel&) { return CUDA_SUCCESS; });
}

VGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* ctas, CUfunction handle, int threads,
                                                                          std::size_t dynamic_bytes,
                                                                          unsigned /*flags*/) {
  return with_resident_kernel(
      "cuOccupancyMaxActiveBlocksPerMultiprocessor", handle, [&](State&, Function& function, const ir::Kernel& kernel) {
        if (ctas == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
        *ctas = resident_ctas(function, kernel, threads, static_cast<std::int64_t>(dynamic_bytes));
        return CUDA_SUCCESS;
      });
}
VGPU_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* ctas, CUfunction handle, int threads,
                                                                 std::size_t dynamic_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(ctas, handle, threads, dynamic_bytes, 0);
}

VGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction handle,
                                                               CUoccupancyB2DSize dynamic_of_block,
                                                               std::size_t dynamic_bytes, int limit,
                                                               unsigned /*flags*/) {
  return with_resident_kernel(
      "cuOccupancyMaxPotentialBlockSize", handle, [&](State& all, Function& function, const ir::Kernel& kernel) {
        if (grid == nullptr || block == nullptr) return CUDA_ERROR_INVALID_VALUE;
        const int warp = all.machine->architecture.threads_per_warp;
        const int most = limit > 0 ? std::min(limit, max_threads(function, kernel)) : max_threads(function, kernel);
        int best_threads = 0;
        // The largest block among those that keep the most threads on an SM; whole warps, the limit itself included.
        for (int threads = (most + warp - 1) / warp * warp; threads > 0; threads -= warp) {
          const int size = std::min(threads, most);
          const auto dynamic = dynamic_of_block != nullptr ? dynamic_of_block(size) : dynamic_bytes;
          const int ctas = resident_ctas(function, kernel, size, static_cast<std::int64_t>(dynamic));
          if (ctas * size <= best_threads) continue;
          best_threads = ctas * size;
          *block = size;
          *grid = ctas * static_cast<int>(all.machine->gpu.sm_count.value);
        }
        return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      });
}
VGPU_EXPORT CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction handle,
                                                      CUoccupancyB2DSize dynamic_of_block, std::size_t dynamic_bytes,
                                                      int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, handle, dynamic_of_block, dynamic_bytes, limit, 0);
}
VGPU_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction handle, int ctas,
                                                             int threads) {
  return with_resident_kernel("cuOccupancyAvailableDynamicSMemPerBlock", handle,
                              [&](State& all, Function& function, const ir::Kernel& kernel) {
                                if (bytes == nullptr || ctas <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
                                std::int64_t most = all.machine->architecture.shared_bytes_per_cta_optin -
                                                    static_cast<std::int64_t>(kernel.static_shared_bytes);
                                const int step = all.machine->architecture.shared_bytes_granularity;
                                while (most > 0 && resident_ctas(function, kernel, threads, most) < ctas) most -= step;
                                *bytes = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
                                return CUDA_SUCCESS;
                              });
}
