// Devices, versions, entry points of the driver.
#include <array>

#include "vgpu/cudart/calls.hpp"

using namespace flashmoe::vgpu::cudart;

namespace {

constexpr int runtime_version = 13000;

struct Property {
  int cudaDeviceProp::*place;
  int attribute;
};
struct Bytes {
  std::size_t cudaDeviceProp::*place;
  int attribute;
};

constexpr std::array properties{
    Property{&cudaDeviceProp::regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    Property{&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    Property{&cudaDeviceProp::maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    Property{&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    Property{&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    Property{&cudaDeviceProp::multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    Property{&cudaDeviceProp::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    Property{&cudaDeviceProp::canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    Property{&cudaDeviceProp::concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    Property{&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    Property{&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    Property{&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    Property{&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    Property{&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    Property{&cudaDeviceProp::unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    Property{&cudaDeviceProp::memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    Property{&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    Property{&cudaDeviceProp::persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE},
    Property{&cudaDeviceProp::maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    Property{&cudaDeviceProp::streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    Property{&cudaDeviceProp::globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED},
    Property{&cudaDeviceProp::localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED},
    Property{&cudaDeviceProp::regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    Property{&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    Property{&cudaDeviceProp::pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    Property{&cudaDeviceProp::concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    Property{&cudaDeviceProp::computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED},
    Property{&cudaDeviceProp::canUseHostPointerForRegisteredMem,
             CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    Property{&cudaDeviceProp::cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    Property{&cudaDeviceProp::maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    Property{&cudaDeviceProp::accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE},
    Property{&cudaDeviceProp::hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    Property{&cudaDeviceProp::memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    Property{&cudaDeviceProp::clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH},
    Property{&cudaDeviceProp::unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS},
};
constexpr std::array sizes{
    Bytes{&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    Bytes{&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    Bytes{&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    Bytes{&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    Bytes{&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    Bytes{&cudaDeviceProp::surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT},
    Bytes{&cudaDeviceProp::sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    Bytes{&cudaDeviceProp::sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    Bytes{&cudaDeviceProp::reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
};

// What the driver does not know of a device stays 0.
int attribute_of(int device, int attribute) {
  int value = 0;
  (void)cuDeviceGetAttribute(&value, attribute, device);
  return value;
}

}  // namespace

VGPU_RUNTIME cudaError_t cudaGetDeviceCount(int* count) {
  return answered([&]() -> cudaError_t {
    *count = 0;
    const CUresult result = cuInit(0);
    return result != CUDA_SUCCESS ? result : cuDeviceGetCount(count);
  });
}
VGPU_RUNTIME cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
VGPU_RUNTIME cudaError_t cudaSetDevice(int device) {
  return answered([&] { return choose_device(device); });
}
VGPU_RUNTIME cudaError_t cudaInitDevice(int device, unsigned /*flags of the device*/, unsigned /*flags*/) {
  return answered([&] { return choose_device(device); });
}
VGPU_RUNTIME cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* /*wish*/) {
  *device = 0;
  return cudaSuccess;
}
VGPU_FORWARD(cudaSetDeviceFlags, (unsigned flags), cuDevicePrimaryCtxSetFlags_v2(current_device(), flags))
VGPU_RUNTIME cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return on_device([&] {
    int active = 0;
    return cuDevicePrimaryCtxGetState(current_device(), flags, &active);
  });
}
VGPU_RUNTIME cudaError_t cudaDeviceReset() {
  return on_device([&] {
    const int device = current_device();
    forget_contexts();
    (void)cuCtxSetCurrent(nullptr);
    return cuDevicePrimaryCtxReset_v2(device);
  });
}
VGPU_FORWARD(cudaDeviceSynchronize, (), cuCtxSynchronize())
VGPU_FORWARD(cudaDeviceGetAttribute, (int* value, int attribute, int device),
             cuDeviceGetAttribute(value, attribute, device))
VGPU_FORWARD(cudaDeviceGetLimit, (std::size_t * value, int limit), cuCtxGetLimit(value, limit))
VGPU_FORWARD(cudaDeviceSetLimit, (int limit, std::size_t value), cuCtxSetLimit(limit, value))
VGPU_FORWARD(cudaDeviceGetCacheConfig, (int* preference), cuCtxGetCacheConfig(preference))
VGPU_FORWARD(cudaDeviceSetCacheConfig, (int preference), cuCtxSetCacheConfig(preference))
VGPU_FORWARD(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
             cuCtxGetStreamPriorityRange(least, greatest))
VGPU_FORWARD(cudaDeviceCanAccessPeer, (int* can, int device, int peer), cuDeviceCanAccessPeer(can, device, peer))
// Documented for devices that cannot reach each other, which is all there are.
VGPU_FORWARD(cudaDeviceEnablePeerAccess, (int /*peer*/, unsigned /*flags*/), CUDA_ERROR_INVALID_DEVICE)
VGPU_FORWARD(cudaDeviceGetP2PAttribute, (int* value, int attribute, int from, int to),
             cuDeviceGetP2PAttribute(value, attribute, from, to))
VGPU_FORWARD(cudaDeviceGetPCIBusId, (char* id, int length, int device), cuDeviceGetPCIBusId(id, length, device))
VGPU_FORWARD(cudaDeviceGetByPCIBusId, (int* device, const char* id), cuDeviceGetByPCIBusId(device, id))
VGPU_FORWARD(cudaDeviceGetGraphMemAttribute, (int device, int attribute, void* value),
             cuDeviceGetGraphMemAttribute(device, attribute, value))
VGPU_FORWARD(cudaDeviceSetGraphMemAttribute, (int device, int attribute, void* value),
             cuDeviceSetGraphMemAttribute(device, attribute, value))
VGPU_FORWARD(cudaDeviceGraphMemTrim, (int device), cuDeviceGraphMemTrim(device))
VGPU_FORWARD(cudaCtxResetPersistingL2Cache, (), cuCtxResetPersistingL2Cache())

VGPU_RUNTIME cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int device) {
  return answered([&]() -> cudaError_t {
    *facts = {};
    if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return result;
    CUdevice handle = 0;
    if (const CUresult result = cuDeviceGet(&handle, device); result != CUDA_SUCCESS) return result;
    (void)cuDeviceGetName(facts->name, sizeof facts->name, handle);
    (void)cuDeviceGetUuid_v2(&facts->uuid, handle);
    (void)cuDeviceTotalMem_v2(&facts->totalGlobalMem, handle);
    for (const Property& one : properties) facts->*one.place = attribute_of(handle, one.attribute);
    for (const Bytes& one : sizes) facts->*one.place = static_cast<std::size_t>(attribute_of(handle, one.attribute));
    constexpr std::array block{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                               CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
    constexpr std::array grid{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                              CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
    for (std::size_t i = 0; i < 3; ++i) {
      facts->maxThreadsDim[i] = attribute_of(handle, block[i]);
      facts->maxGridSize[i] = attribute_of(handle, grid[i]);
    }
    return cudaSuccess;
  });
}

VGPU_RUNTIME cudaError_t cudaDriverGetVersion(int* version) {
  return answered([&]() -> cudaError_t { return cuDriverGetVersion(version); });
}
VGPU_RUNTIME cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version;
  return cudaSuccess;
}
VGPU_FORWARD(cudaProfilerStart, (), cuProfilerStart())
VGPU_FORWARD(cudaProfilerStop, (), cuProfilerStop())
VGPU_FORWARD(cudaGetDriverEntryPointByVersion,
             (const char* name, void** function, unsigned version, std::uint64_t flags, int* status),
             cuGetProcAddress_v2(name, function, static_cast<int>(version), flags, status))
VGPU_RUNTIME_ALIAS(cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz);
VGPU_FORWARD(cudaGetDriverEntryPoint, (const char* name, void** function, std::uint64_t flags, int* status),
             cuGetProcAddress_v2(name, function, runtime_version, flags, status))
VGPU_RUNTIME_ALIAS(cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz);
