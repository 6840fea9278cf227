// The driver's functions that the runtime is made of, as cuda.h declares them. Some are known here by their types only:
// what the runtime does not look at is a void*.
#pragma once

#include "vgpu/driver/cuda_abi.hpp"

extern "C" {
CUresult cuInit(unsigned flags);
CUresult cuDriverGetVersion(int* version);
CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags, int* status);
CUresult cuProfilerStart();
CUresult cuProfilerStop();

CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetCount(int* count);
CUresult cuDeviceGetName(char* name, int length, CUdevice device);
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice device);
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device);
CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device);
CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* id);
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer);
CUresult cuDeviceGetP2PAttribute(int* value, int attribute, CUdevice from, CUdevice to);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device);
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void* value);
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, void* value);
CUresult cuDeviceGraphMemTrim(CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);

CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice* device);
CUresult cuCtxSynchronize();
CUresult cuCtxGetLimit(std::size_t* value, int limit);
CUresult cuCtxSetLimit(int limit, std::size_t value);
CUresult cuCtxGetCacheConfig(int* preference);
CUresult cuCtxSetCacheConfig(int preference);
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest);
CUresult cuCtxResetPersistingL2Cache();

CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, CUlinkState* link);
CUresult cuLinkAddData_v2(CUlinkState link, int type, void* data, std::size_t bytes, const char* name, unsigned count,
                          int* options, void** values);
CUresult cuLinkComplete(CUlinkState link, void** image, std::size_t* bytes);
CUresult cuLinkDestroy(CUlinkState link);

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, int* jit_options, void** jit_values,
                           unsigned jit_count, int* options, void** values, unsigned count);
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* file, int* jit_options, void** jit_values,
                               unsigned jit_count, int* options, void** values, unsigned count);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name);
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library);
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library);
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name);
CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name);
CUresult cuLibraryGetUnifiedFunction(void** function, CUlibrary library, const char* name);
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel);
CUresult cuKernelGetAttribute(int* value, int attribute, CUkernel kernel, CUdevice device);
CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device);
CUresult cuKernelSetCacheConfig(CUkernel kernel, int preference, CUdevice device);
CUresult cuKernelGetName(const char** name, CUkernel kernel);
CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset, std::size_t* bytes);

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments,
                        void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                   CUstream stream, void** arguments);
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, std::size_t shared);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              std::size_t shared, unsigned flags);
CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction function, int blocks, int threads);
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config);
CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function, const CUlaunchConfig* config);

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t bytes);
CUresult cuMemAllocPitch_v2(CUdeviceptr* address, std::size_t* pitch, std::size_t width, std::size_t height,
                            unsigned element);
CUresult cuMemAllocManaged(CUdeviceptr* address, std::size_t bytes, unsigned flags);
CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, std::size_t bytes, CUmemoryPool pool, CUstream stream);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemFreeHost(void* address);
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
CUresult cuMemHostAlloc(void** address, std::size_t bytes, unsigned flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* host, unsigned flags);
CUresult cuMemHostGetFlags(unsigned* flags, void* host);
CUresult cuMemHostRegister_v2(void* host, std::size_t bytes, unsigned flags);
CUresult cuMemHostUnregister(void* host);
CUresult cuMemPoolCreate(CUmemoryPool* pool, const void* properties);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void* value);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void* value);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void* descriptions, std::size_t count);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, std::size_t least_bytes);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream);
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream);
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream);
CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* asked);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* described, CUarray array);
CUresult cuArrayDestroy(CUarray array);
CUresult cuTexObjectCreate(std::uint64_t* texture, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* how,
                           const void* view);
CUresult cuTexObjectDestroy(std::uint64_t texture);
CUresult cuSurfObjectCreate(std::uint64_t* surface, const CUDA_RESOURCE_DESC* resource);
CUresult cuSurfObjectDestroy(std::uint64_t surface);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t bytes);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height);
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                           std::size_t height, CUstream stream);
CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address);

CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* user, unsigned flags);
CUresult cuStreamGetPriority(CUstream stream, int* priority);
CUresult cuStreamGetFlags(CUstream stream, unsigned* flags);
CUresult cuStreamGetId(CUstream stream, unsigned long long* id);
CUresult cuStreamGetDevice(CUstream stream, CUdevice* device);
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, std::size_t bytes, unsigned flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph);
CUresult cuStreamIsCapturing(CUstream stream, int* status);
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int* status, std::uint64_t* id, CUgraph* graph,
                                   const void** dependencies, const void** edges, std::size_t* count);
CUresult cuThreadExchangeStreamCaptureMode(int* mode);
CUresult cuEventCreate(CUevent* event, unsigned flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end);
CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, std::uint64_t flags);
CUresult cuGraphInstantiateWithParams(CUgraphExec* executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* asked);
CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream);
CUresult cuGraphUpload(CUgraphExec executable, CUstream stream);
CUresult cuGraphDestroy(CUgraph graph);
CUresult cuGraphExecDestroy(CUgraphExec executable);
CUresult cuUserObjectCreate(CUuserObject* object, void* value, CUhostFn destroy, unsigned references, unsigned flags);
CUresult cuUserObjectRetain(CUuserObject object, unsigned count);
CUresult cuUserObjectRelease(CUuserObject object, unsigned count);
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags);
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count);
CUresult cuGraphCreate(CUgraph* graph, unsigned flags);
CUresult cuGraphAddKernelNode_v2(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* what);
CUresult cuGraphAddMemcpyNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                              const CUDA_MEMCPY3D* what, CUcontext context);
CUresult cuGraphAddMemsetNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* what, CUcontext context);
CUresult cuGraphAddHostNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                            const CUDA_HOST_NODE_PARAMS* what);
CUresult cuGraphAddEmptyNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count);
CUresult cuGraphAddDependencies_v2(CUgraph graph, void* const* from, void* const* to, const void* edges,
                                   std::size_t count);
CUresult cuGraphGetNodes(CUgraph graph, void** nodes, std::size_t* count);
CUresult cuGraphNodeGetType(void* node, int* type);
CUresult cuGraphKernelNodeSetParams_v2(void* node, const CUDA_KERNEL_NODE_PARAMS* what);
CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, void* node, const CUDA_KERNEL_NODE_PARAMS* what);
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, void* node, const CUDA_MEMCPY3D* what,
                                        CUcontext context);
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, void* node, const CUDA_MEMSET_NODE_PARAMS* what,
                                        CUcontext context);
CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, void* node, const CUDA_HOST_NODE_PARAMS* what);
CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph with, CUgraphExecUpdateResultInfo* told);
}
