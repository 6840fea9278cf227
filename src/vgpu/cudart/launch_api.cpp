// Launches, attributes of kernels, occupancy, libraries.
#include <vector>

#include "vgpu/cudart/calls.hpp"
#include "vgpu/cudart/registered.hpp"

using namespace flashmoe::vgpu::cudart;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes;
  CUstream stream;
};
// Between the triple brackets and the call of the kernel's host function; arguments may launch kernels themselves.
thread_local std::vector<Configuration> configurations;

CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

// What is wrong with the numbers of a launch has a name of its own in the runtime.
cudaError_t of_launch(CUresult result, const dim3& grid, const dim3& block) {
  if (result != CUDA_ERROR_INVALID_VALUE) return result;
  const auto exceeds = [](unsigned value, int attribute) {
    int limit = 0;
    (void)cuDeviceGetAttribute(&limit, attribute, current_device());
    return value == 0 || value > static_cast<unsigned>(limit);
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const bool wrong =
      exceeds(grid.x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) || exceeds(grid.y, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) ||
      exceeds(grid.z, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) || exceeds(block.x, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X) ||
      exceeds(block.y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y) || exceeds(block.z, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z) ||
      threads > UINT32_MAX || exceeds(static_cast<unsigned>(threads), CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  return wrong ? cudaErrorInvalidConfiguration : static_cast<cudaError_t>(result);
}

cudaError_t launch(CUkernel kernel, const dim3& grid, const dim3& block, void** arguments, std::size_t shared_bytes,
                   CUstream stream) {
  if (const cudaError_t error = make_ready(); error != cudaSuccess) return error;
  const CUresult result = cuLaunchKernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                         static_cast<unsigned>(shared_bytes), stream, arguments, nullptr);
  return of_launch(result, grid, block);
}

CUlaunchConfig of_driver(const cudaLaunchConfig_t& config) {
  return {.gridDimX = config.gridDim.x,
          .gridDimY = config.gridDim.y,
          .gridDimZ = config.gridDim.z,
          .blockDimX = config.blockDim.x,
          .blockDimY = config.blockDim.y,
          .blockDimZ = config.blockDim.z,
          .sharedMemBytes = static_cast<unsigned>(config.dynamicSmemBytes),
          .hStream = config.stream,
          .attrs = static_cast<CUlaunchAttribute*>(config.attrs),
          .numAttrs = config.numAttrs};
}

// `body` with the kernel that is known by this key, as a function.
template <class Body>
cudaError_t on_kernel(const void* key, const Body& body) noexcept {
  return answered([&]() -> cudaError_t {
    CUkernel kernel = nullptr;
    if (const cudaError_t error = find_kernel(key, kernel); error != cudaSuccess) return error;
    if (const cudaError_t error = make_ready(); error != cudaSuccess) return error;
    return body(kernel);
  });
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): names that nvcc's host code calls
VGPU_RUNTIME unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
VGPU_RUNTIME cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return kept(cudaErrorMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared_bytes = last.shared_bytes;
  *static_cast<CUstream*>(stream) = last.stream;
  return cudaSuccess;
}

VGPU_RUNTIME cudaError_t cudaLaunchKernel(const void* key, dim3 grid, dim3 block, void** arguments,
                                          std::size_t shared_bytes, CUstream stream) {
  return on_kernel(key, [&](CUkernel kernel) { return launch(kernel, grid, block, arguments, shared_bytes, stream); });
}
VGPU_RUNTIME_ALIAS(cudaLaunchKernel, cudaLaunchKernel_ptsz);
VGPU_RUNTIME cudaError_t __cudaLaunchKernel(CUkernel kernel, dim3 grid, dim3 block, void** arguments,
                                            std::size_t shared_bytes, CUstream stream) {
  return answered([&] {
    // __cudaGetKernel has failed before, and nobody looked.
    if (kernel == nullptr) return last_error() != cudaSuccess ? last_error() : cudaErrorInvalidDeviceFunction;
    return launch(kernel, grid, block, arguments, shared_bytes, stream);
  });
}
VGPU_RUNTIME_ALIAS(__cudaLaunchKernel, __cudaLaunchKernel_ptsz);
// NOLINTEND(bugprone-reserved-identifier)
VGPU_RUNTIME cudaError_t cudaLaunchCooperativeKernel(const void* key, dim3 grid, dim3 block, void** arguments,
                                                     std::size_t shared_bytes, CUstream stream) {
  return on_kernel(key, [&](CUkernel kernel) {
    return of_launch(cuLaunchCooperativeKernel(as_function(kernel), grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                               static_cast<unsigned>(shared_bytes), stream, arguments),
                     grid, block);
  });
}
VGPU_RUNTIME_ALIAS(cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz);
VGPU_RUNTIME cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* key, void** arguments) {
  return on_kernel(key, [&](CUkernel kernel) {
    const CUlaunchConfig wanted = of_driver(*config);
    return of_launch(cuLaunchKernelEx(&wanted, as_function(kernel), arguments, nullptr), config->gridDim,
                     config->blockDim);
  });
}
VGPU_RUNTIME_ALIAS(cudaLaunchKernelExC, cudaLaunchKernelExC_ptsz);
VGPU_FORWARD(cudaLaunchHostFunc, (CUstream stream, CUhostFn function, void* user),
             cuLaunchHostFunc(stream, function, user))
VGPU_RUNTIME_ALIAS(cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz);

VGPU_RUNTIME cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* key) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    const auto value = [&](int attribute) {
      int number = 0;
      (void)cuKernelGetAttribute(&number, attribute, kernel, current_device());
      return number;
    };
    const auto bytes = [&](int attribute) { return static_cast<std::size_t>(value(attribute)); };
    *attributes = {
        .sharedSizeBytes = bytes(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        .constSizeBytes = bytes(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
        .localSizeBytes = bytes(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
        .maxThreadsPerBlock = value(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .numRegs = value(CU_FUNC_ATTRIBUTE_NUM_REGS),
        .ptxVersion = value(CU_FUNC_ATTRIBUTE_PTX_VERSION),
        .binaryVersion = value(CU_FUNC_ATTRIBUTE_BINARY_VERSION),
        .cacheModeCA = value(CU_FUNC_ATTRIBUTE_CACHE_MODE_CA),
        .maxDynamicSharedSizeBytes = value(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
        .preferredShmemCarveout = value(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT),
        .clusterDimMustBeSet = value(CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET),
        .requiredClusterWidth = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH),
        .requiredClusterHeight = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT),
        .requiredClusterDepth = value(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH),
        .clusterSchedulingPolicyPreference = value(CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE),
        .nonPortableClusterSizeAllowed = value(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED),
        .reserved = {},
    };
    return cudaSuccess;
  });
}
// Their attributes have the driver's numbers.
VGPU_RUNTIME cudaError_t cudaFuncSetAttribute(const void* key, int attribute, int value) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    return cuKernelSetAttribute(attribute, value, kernel, current_device());
  });
}
VGPU_RUNTIME cudaError_t cudaFuncSetCacheConfig(const void* key, int preference) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    return cuKernelSetCacheConfig(kernel, preference, current_device());
  });
}
VGPU_RUNTIME cudaError_t cudaFuncGetName(const char** name, const void* key) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t { return cuKernelGetName(name, kernel); });
}
VGPU_RUNTIME cudaError_t cudaFuncGetParamInfo(const void* key, std::size_t index, std::size_t* offset,
                                              std::size_t* bytes) {
  return on_kernel(key,
                   [&](CUkernel kernel) -> cudaError_t { return cuKernelGetParamInfo(kernel, index, offset, bytes); });
}
VGPU_FORWARD(cudaKernelSetAttributeForDevice, (CUkernel kernel, int attribute, int value, int device),
             cuKernelSetAttribute(attribute, value, kernel, device))

VGPU_RUNTIME cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* key, int threads,
                                                                       std::size_t shared_bytes) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, as_function(kernel), threads, shared_bytes);
  });
}
VGPU_RUNTIME cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* key,
                                                                                int threads, std::size_t shared_bytes,
                                                                                unsigned flags) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, as_function(kernel), threads, shared_bytes,
                                                                flags);
  });
}
VGPU_RUNTIME cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, const void* key, int blocks,
                                                                   int threads) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    return cuOccupancyAvailableDynamicSMemPerBlock(bytes, as_function(kernel), blocks, threads);
  });
}
VGPU_RUNTIME cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* key,
                                                        const cudaLaunchConfig_t* config) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    const CUlaunchConfig wanted = of_driver(*config);
    return cuOccupancyMaxActiveClusters(clusters, as_function(kernel), &wanted);
  });
}
VGPU_RUNTIME cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* key,
                                                              const cudaLaunchConfig_t* config) {
  return on_kernel(key, [&](CUkernel kernel) -> cudaError_t {
    const CUlaunchConfig wanted = of_driver(*config);
    return cuOccupancyMaxPotentialClusterSize(size, as_function(kernel), &wanted);
  });
}

// Options of the just-in-time compiler have the driver's numbers.
VGPU_FORWARD(cudaLibraryLoadData,
             (CUlibrary * library, const void* image, int* jit_options, void** jit_values, unsigned jit_count,
              int* options, void** values, unsigned count),
             cuLibraryLoadData(library, image, jit_options, jit_values, jit_count, options, values, count))
VGPU_FORWARD(cudaLibraryLoadFromFile,
             (CUlibrary * library, const char* file, int* jit_options, void** jit_values, unsigned jit_count,
              int* options, void** values, unsigned count),
             cuLibraryLoadFromFile(library, file, jit_options, jit_values, jit_count, options, values, count))
VGPU_FORWARD(cudaLibraryUnload, (CUlibrary library), cuLibraryUnload(library))
VGPU_RUNTIME cudaError_t cudaLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return on_device([&] {
    const CUresult result = cuLibraryGetKernel(kernel, library, name);
    if (result == CUDA_SUCCESS) hand_out(*kernel);
    return result;
  });
}
VGPU_FORWARD(cudaLibraryGetKernelCount, (unsigned* count, CUlibrary library), cuLibraryGetKernelCount(count, library))
VGPU_RUNTIME cudaError_t cudaLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return on_device([&] {
    const CUresult result = cuLibraryEnumerateKernels(kernels, count, library);
    for (unsigned i = 0; result == CUDA_SUCCESS && i < count; ++i) hand_out(kernels[i]);
    return result;
  });
}
VGPU_FORWARD(cudaLibraryGetGlobal, (CUdeviceptr * address, std::size_t* bytes, CUlibrary library, const char* name),
             cuLibraryGetGlobal(address, bytes, library, name))
VGPU_FORWARD(cudaLibraryGetManaged, (CUdeviceptr * address, std::size_t* bytes, CUlibrary library, const char* name),
             cuLibraryGetManaged(address, bytes, library, name))
VGPU_FORWARD(cudaLibraryGetUnifiedFunction, (void** function, CUlibrary library, const char* name),
             cuLibraryGetUnifiedFunction(function, library, name))
