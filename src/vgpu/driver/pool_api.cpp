// Stream-ordered allocation. Work is done when it is asked for, so an allocation is there at once and a free is one.
#include <cstring>

#include "vgpu/driver/allocate.hpp"
#include "vgpu/driver/log.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

MemoryPool* default_pool(State& all) {
  if (all.default_pool == nullptr) {
    auto made = std::make_unique<MemoryPool>();
    made->is_default = true;
    made->location_type = CU_MEM_LOCATION_TYPE_DEVICE;
    made->flags = {{CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1},
                   {CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 1},
                   {CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 1}};
    all.default_pool = all.current_pool = all.pools.add(std::move(made));
  }
  return all.default_pool;
}

MemoryPool* current_pool(State& all) {
  default_pool(all);
  return all.current_pool;
}

CUresult give(CUmemoryPool* out, MemoryPool* pool) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

bool is_wide(int attribute) {
  return attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
}

}  // namespace

VGPU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, std::size_t bytes, CUstream stream) {
  return with_context("cuMemAllocAsync", [&](State& all, Context& context) {
    if (all.stream(stream, context) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return allocate(all, context, bytes, Owned::Kind::pooled, "cuMemAllocAsync", out, current_pool(all));
  });
}

VGPU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool handle,
                                             CUstream stream) {
  return with_context("cuMemAllocFromPoolAsync", [&](State& all, Context& context) {
    MemoryPool* const pool = all.pools.find(handle);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (all.stream(stream, context) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const bool on_host = pool->location_type != CU_MEM_LOCATION_TYPE_DEVICE;
    return allocate(all, context, bytes, on_host ? Owned::Kind::host : Owned::Kind::pooled, "cuMemAllocFromPoolAsync",
                    out, pool);
  });
}

VGPU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return with_context("cuMemFreeAsync", [&](State& all, Context& context) {
    if (all.stream(stream, context) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return release(all, address);
  });
}

VGPU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  return with_driver("cuDeviceGetDefaultMemPool", [&](State& all) {
    return device == 0 ? give(out, default_pool(all)) : CUDA_ERROR_INVALID_DEVICE;
  });
}
VGPU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  return with_driver("cuDeviceGetMemPool", [&](State& all) {
    return device == 0 ? give(out, current_pool(all)) : CUDA_ERROR_INVALID_DEVICE;
  });
}
VGPU_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  return with_driver("cuDeviceSetMemPool", [&](State& all) {
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    MemoryPool* const pool = all.pools.find(handle);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
    all.current_pool = pool;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* where, int /*type*/) {
  return with_driver("cuMemGetDefaultMemPool", [&](State& all) {
    return where == nullptr ? CUDA_ERROR_INVALID_VALUE : give(out, default_pool(all));
  });
}
VGPU_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* where, int /*type*/) {
  return with_driver("cuMemGetMemPool", [&](State& all) {
    return where == nullptr ? CUDA_ERROR_INVALID_VALUE : give(out, current_pool(all));
  });
}

VGPU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* properties) {
  return with_driver("cuMemPoolCreate", [&](State& all) {
    if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (properties->handleTypes != 0) {
      log_once("memory pools that are shared between processes: CUDA_ERROR_NOT_SUPPORTED");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    auto made = std::make_unique<MemoryPool>();
    made->location_type = properties->location.type;
    return give(out, all.pools.add(std::move(made)));
  });
}
VGPU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  return with_driver("cuMemPoolDestroy", [&](State& all) {
    MemoryPool* const pool = all.pools.find(handle);
    if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    // Its allocations live on until they are freed.
    for (auto& [address, owned] : all.allocations)
      if (owned.pool == pool) owned.pool = nullptr;
    if (all.current_pool == pool) all.current_pool = all.default_pool;
    all.pools.remove(pool);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, std::size_t /*keep*/) {
  return with_driver("cuMemPoolTrimTo", [&](State& all) {
    return all.pools.find(handle) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* what, std::size_t count) {
  return with_driver("cuMemPoolSetAccess", [&](State& all) {
    if (all.pools.find(handle) == nullptr || (count != 0 && what == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuMemPoolGetAccess(int* flags, CUmemoryPool handle, CUmemLocation* where) {
  return with_driver("cuMemPoolGetAccess", [&](State& all) {
    if (flags == nullptr || where == nullptr || all.pools.find(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return with_driver("cuMemPoolGetAttribute", [&](State& all) {
    const MemoryPool* const pool = all.pools.find(handle);
    if (pool == nullptr || value == nullptr || attribute < 1 || attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
      return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t answer = 0;
    switch (attribute) {
      case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        answer = pool->release_threshold;
        break;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        answer = pool->used;
        break;
      case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        answer = pool->used_high;
        break;
      default:
        if (const auto found = pool->flags.find(attribute); found != pool->flags.end()) answer = found->second;
    }
    std::memcpy(value, &answer, is_wide(attribute) ? sizeof(std::uint64_t) : sizeof(int));
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, int attribute, void* value) {
  return with_driver("cuMemPoolSetAttribute", [&](State& all) {
    MemoryPool* const pool = all.pools.find(handle);
    if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::uint64_t given = 0;
    std::memcpy(&given, value, is_wide(attribute) ? sizeof(std::uint64_t) : sizeof(int));
    if (attribute >= 1 && attribute < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
      pool->flags[attribute] = given;
    } else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
      pool->release_threshold = given;
    } else if ((attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) &&
               given == 0) {
      pool->used_high = pool->used;  // the only value that may be set: reset
    } else {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
  });
}

VGPU_PER_THREAD(cuMemAllocAsync, cuMemAllocAsync_ptsz);
VGPU_PER_THREAD(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz);
VGPU_PER_THREAD(cuMemFreeAsync, cuMemFreeAsync_ptsz);
