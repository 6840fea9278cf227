// Memory: allocations, copies, sets, what a pointer is.
#include <cstring>

#include "vgpu/cudart/calls.hpp"
#include "vgpu/cudart/registered.hpp"

using namespace flashmoe::vgpu::cudart;

namespace {

bool is_a_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

CUresult copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoD_v2(address_of(to), from, bytes);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoH_v2(to, address_of(from), bytes);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoD_v2(address_of(to), address_of(from), bytes);
    case cudaMemcpyHostToHost:
      std::memmove(to, from, bytes);
      return CUDA_SUCCESS;
    case cudaMemcpyDefault:
      break;
  }
  return cuMemcpy(address_of(to), address_of(from), bytes);
}

CUresult copy_async(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, CUstream stream) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return cuMemcpyHtoDAsync_v2(address_of(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
      return cuMemcpyDtoHAsync_v2(to, address_of(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
      return cuMemcpyDtoDAsync_v2(address_of(to), address_of(from), bytes, stream);
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
      break;
  }
  return cuMemcpyAsync(address_of(to), address_of(from), bytes, stream);
}

CUDA_MEMCPY2D rectangle(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch, std::size_t width,
                        std::size_t height, cudaMemcpyKind kind) {
  const auto place = [&](bool device) {
    if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
    return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  };
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = place(kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice);
  copy.srcHost = from;
  copy.srcDevice = address_of(from);
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = place(kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
  copy.dstHost = to;
  copy.dstDevice = address_of(to);
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

// Bytes of a variable, all of them inside of it.
cudaError_t part_of_variable(const void* key, std::size_t offset, std::size_t bytes, void*& part) {
  Variable variable;
  if (const cudaError_t error = find_variable(key, variable); error != cudaSuccess) return error;
  if (offset > variable.bytes || bytes > variable.bytes - offset) return cudaErrorInvalidValue;
  part = reinterpret_cast<void*>(variable.address + offset);
  return cudaSuccess;
}

template <class Body>
cudaError_t on_variable(const void* key, std::size_t offset, std::size_t bytes, cudaMemcpyKind kind, const Body& body) {
  return answered([&]() -> cudaError_t {
    if (!is_a_kind(kind)) return cudaErrorInvalidMemcpyDirection;
    void* part = nullptr;
    const cudaError_t error = part_of_variable(key, offset, bytes, part);
    return error != cudaSuccess || bytes == 0 ? error : static_cast<cudaError_t>(body(part));
  });
}

template <class Body>
cudaError_t on_kind(cudaMemcpyKind kind, const Body& body) {
  return is_a_kind(kind) ? on_device(body) : kept(cudaErrorInvalidMemcpyDirection);
}

}  // namespace

VGPU_RUNTIME cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return on_device([&] {
    if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *address = nullptr;
    return bytes == 0 ? CUDA_SUCCESS : cuMemAlloc_v2(reinterpret_cast<CUdeviceptr*>(address), bytes);
  });
}
VGPU_FORWARD(cudaMallocPitch, (void** address, std::size_t* pitch, std::size_t width, std::size_t height),
             cuMemAllocPitch_v2(reinterpret_cast<CUdeviceptr*>(address), pitch, width, height, 16))
VGPU_FORWARD(cudaMallocManaged, (void** address, std::size_t bytes, unsigned flags),
             cuMemAllocManaged(reinterpret_cast<CUdeviceptr*>(address), bytes, flags))
VGPU_FORWARD(cudaMallocHost, (void** address, std::size_t bytes), cuMemHostAlloc(address, bytes, 0))
VGPU_FORWARD(cudaHostAlloc, (void** address, std::size_t bytes, unsigned flags), cuMemHostAlloc(address, bytes, flags))
VGPU_FORWARD(cudaMallocAsync, (void** address, std::size_t bytes, CUstream stream),
             cuMemAllocAsync(reinterpret_cast<CUdeviceptr*>(address), bytes, stream))
VGPU_RUNTIME_ALIAS(cudaMallocAsync, cudaMallocAsync_ptsz);
VGPU_FORWARD(cudaMallocFromPoolAsync, (void** address, std::size_t bytes, CUmemoryPool pool, CUstream stream),
             cuMemAllocFromPoolAsync(reinterpret_cast<CUdeviceptr*>(address), bytes, pool, stream))
VGPU_RUNTIME_ALIAS(cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz);
VGPU_FORWARD(cudaFree, (void* address), address == nullptr ? CUDA_SUCCESS : cuMemFree_v2(address_of(address)))
VGPU_FORWARD(cudaFreeHost, (void* address), address == nullptr ? CUDA_SUCCESS : cuMemFreeHost(address))
VGPU_FORWARD(cudaFreeAsync, (void* address, CUstream stream), cuMemFreeAsync(address_of(address), stream))
VGPU_RUNTIME_ALIAS(cudaFreeAsync, cudaFreeAsync_ptsz);
VGPU_FORWARD(cudaHostGetDevicePointer, (void** address, void* host, unsigned flags),
             cuMemHostGetDevicePointer_v2(reinterpret_cast<CUdeviceptr*>(address), host, flags))
VGPU_FORWARD(cudaHostGetFlags, (unsigned* flags, void* host), cuMemHostGetFlags(flags, host))
VGPU_FORWARD(cudaHostRegister, (void* host, std::size_t bytes, unsigned flags),
             cuMemHostRegister_v2(host, bytes, flags))
VGPU_FORWARD(cudaHostUnregister, (void* host), cuMemHostUnregister(host))
VGPU_FORWARD(cudaMemGetInfo, (std::size_t * free, std::size_t* total), cuMemGetInfo_v2(free, total))

VGPU_RUNTIME cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return on_kind(kind, [&] { return bytes == 0 ? CUDA_SUCCESS : copy(to, from, bytes, kind); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpy, cudaMemcpy_ptds);
VGPU_RUNTIME cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                                         CUstream stream) {
  return on_kind(kind, [&] { return bytes == 0 ? CUDA_SUCCESS : copy_async(to, from, bytes, kind, stream); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpyAsync, cudaMemcpyAsync_ptsz);
VGPU_RUNTIME cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                      std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return on_kind(kind, [&] {
    const CUDA_MEMCPY2D copy = rectangle(to, to_pitch, from, from_pitch, width, height, kind);
    return width == 0 || height == 0 ? CUDA_SUCCESS : cuMemcpy2DUnaligned_v2(&copy);
  });
}
VGPU_RUNTIME_ALIAS(cudaMemcpy2D, cudaMemcpy2D_ptds);
VGPU_RUNTIME cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                                           std::size_t width, std::size_t height, cudaMemcpyKind kind,
                                           CUstream stream) {
  return on_kind(kind, [&] {
    const CUDA_MEMCPY2D copy = rectangle(to, to_pitch, from, from_pitch, width, height, kind);
    return width == 0 || height == 0 ? CUDA_SUCCESS : cuMemcpy2DAsync_v2(&copy, stream);
  });
}
VGPU_RUNTIME_ALIAS(cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz);
VGPU_FORWARD(cudaMemcpyPeer, (void* to, int /*device*/, const void* from, int /*device*/, std::size_t bytes),
             cuMemcpy(address_of(to), address_of(from), bytes))
VGPU_FORWARD(cudaMemcpyPeerAsync,
             (void* to, int /*device*/, const void* from, int /*device*/, std::size_t bytes, CUstream stream),
             cuMemcpyAsync(address_of(to), address_of(from), bytes, stream))
VGPU_RUNTIME cudaError_t cudaMemcpyToSymbol(const void* key, const void* from, std::size_t bytes, std::size_t offset,
                                            cudaMemcpyKind kind) {
  return on_variable(key, offset, bytes, kind, [&](void* part) { return copy(part, from, bytes, kind); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds);
VGPU_RUNTIME cudaError_t cudaMemcpyToSymbolAsync(const void* key, const void* from, std::size_t bytes,
                                                 std::size_t offset, cudaMemcpyKind kind, CUstream stream) {
  return on_variable(key, offset, bytes, kind, [&](void* part) { return copy_async(part, from, bytes, kind, stream); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz);
VGPU_RUNTIME cudaError_t cudaMemcpyFromSymbol(void* to, const void* key, std::size_t bytes, std::size_t offset,
                                              cudaMemcpyKind kind) {
  return on_variable(key, offset, bytes, kind, [&](void* part) { return copy(to, part, bytes, kind); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds);
VGPU_RUNTIME cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* key, std::size_t bytes, std::size_t offset,
                                                   cudaMemcpyKind kind, CUstream stream) {
  return on_variable(key, offset, bytes, kind, [&](void* part) { return copy_async(to, part, bytes, kind, stream); });
}
VGPU_RUNTIME_ALIAS(cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz);

VGPU_FORWARD(cudaMemset, (void* to, int value, std::size_t bytes),
             bytes == 0 ? CUDA_SUCCESS : cuMemsetD8_v2(address_of(to), static_cast<unsigned char>(value), bytes))
VGPU_RUNTIME_ALIAS(cudaMemset, cudaMemset_ptds);
VGPU_FORWARD(cudaMemsetAsync, (void* to, int value, std::size_t bytes, CUstream stream),
             bytes == 0 ? CUDA_SUCCESS
                        : cuMemsetD8Async(address_of(to), static_cast<unsigned char>(value), bytes, stream))
VGPU_RUNTIME_ALIAS(cudaMemsetAsync, cudaMemsetAsync_ptsz);
VGPU_FORWARD(cudaMemset2D, (void* to, std::size_t pitch, int value, std::size_t width, std::size_t height),
             cuMemsetD2D8_v2(address_of(to), pitch, static_cast<unsigned char>(value), width, height))
VGPU_RUNTIME_ALIAS(cudaMemset2D, cudaMemset2D_ptds);
VGPU_FORWARD(cudaMemset2DAsync,
             (void* to, std::size_t pitch, int value, std::size_t width, std::size_t height, CUstream stream),
             cuMemsetD2D8Async(address_of(to), pitch, static_cast<unsigned char>(value), width, height, stream))
VGPU_RUNTIME_ALIAS(cudaMemset2DAsync, cudaMemset2DAsync_ptsz);

// Memory that the driver does not know is an ordinary allocation of the host, and no error.
VGPU_RUNTIME cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return on_device([&] {
    *attributes = {};
    unsigned type = 0;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(pointer)) != CUDA_SUCCESS) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;  // cudaInvalidDeviceId
      attributes->hostPointer = const_cast<void*>(pointer);
      return CUDA_SUCCESS;
    }
    int managed = 0, device = 0;
    (void)cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address_of(pointer));
    (void)cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address_of(pointer));
    const bool host = type == CU_MEMORYTYPE_HOST;
    attributes->type = managed != 0 ? cudaMemoryTypeManaged : host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = host || managed != 0 ? const_cast<void*>(pointer) : nullptr;
    return CUDA_SUCCESS;
  });
}
// Hints; all memory is near.
VGPU_FORWARD(cudaMemPrefetchAsync, (const void*, std::size_t, std::uint64_t /*location*/, unsigned, CUstream),
             CUDA_SUCCESS)
VGPU_RUNTIME_ALIAS(cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz);
VGPU_FORWARD(cudaMemAdvise, (const void*, std::size_t, int, std::uint64_t /*location*/), CUDA_SUCCESS)

VGPU_FORWARD(cudaDeviceGetDefaultMemPool, (CUmemoryPool * pool, int device), cuDeviceGetDefaultMemPool(pool, device))
VGPU_FORWARD(cudaDeviceGetMemPool, (CUmemoryPool * pool, int device), cuDeviceGetMemPool(pool, device))
VGPU_FORWARD(cudaDeviceSetMemPool, (int device, CUmemoryPool pool), cuDeviceSetMemPool(device, pool))
VGPU_FORWARD(cudaMemPoolCreate, (CUmemoryPool * pool, const void* properties), cuMemPoolCreate(pool, properties))
VGPU_FORWARD(cudaMemPoolDestroy, (CUmemoryPool pool), cuMemPoolDestroy(pool))
VGPU_FORWARD(cudaMemPoolGetAttribute, (CUmemoryPool pool, int attribute, void* value),
             cuMemPoolGetAttribute(pool, attribute, value))
VGPU_FORWARD(cudaMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void* value),
             cuMemPoolSetAttribute(pool, attribute, value))
VGPU_FORWARD(cudaMemPoolSetAccess, (CUmemoryPool pool, const void* descriptions, std::size_t count),
             cuMemPoolSetAccess(pool, descriptions, count))
VGPU_FORWARD(cudaMemPoolTrimTo, (CUmemoryPool pool, std::size_t least_bytes), cuMemPoolTrimTo(pool, least_bytes))
