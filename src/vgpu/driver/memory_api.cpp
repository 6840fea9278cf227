// Allocating, freeing, and asking about memory. A device address is a host address here, so managed and page-locked
// memory are ordinary device allocations that the host may touch as well.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "vgpu/driver/allocate.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/registered.hpp"
#include "vgpu/driver/watch.hpp"

using namespace flashmoe::vgpu::driver;
using flashmoe::vgpu::memory::Allocation;

namespace flashmoe::vgpu::driver {

CUresult allocate(State& all, Context& context, std::uint64_t bytes, Owned::Kind kind, const char* what,
                  CUdeviceptr* out, MemoryPool* pool) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  // What is allocated in the order of a stream waits for nobody.
  if (const CUresult refused = pool == nullptr ? all.refuse_while_capturing() : CUDA_SUCCESS; refused != CUDA_SUCCESS)
    return refused;
  const std::uint64_t number = all.next_allocation;
  const auto address = all.machine->memory->allocate(bytes, std::string(what) + " #" + std::to_string(number));
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  ++all.next_allocation;
  all.allocations[*address] = {.kind = kind, .context = &context, .pool = pool, .bytes = bytes, .id = number};
  if (pool != nullptr) {
    pool->used += bytes;
    pool->used_high = std::max(pool->used_high, pool->used);
  }
  // What the host may write directly is not seen being written.
  if (kind == Owned::Kind::managed || kind == Owned::Kind::host)
    host_wrote(*address, bytes);
  else
    host_allocated(*address, bytes);
  *out = *address;
  return CUDA_SUCCESS;
}

CUresult release(State& all, CUdeviceptr address) {
  const auto found = all.allocations.find(address);
  if (found == all.allocations.end()) {
    log_once(fmt::format("{:#x} cannot be freed: it is {}, and only what an allocation returned can be, once", address,
                         all.machine->memory->describe(address)));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (found->second.pool != nullptr) found->second.pool->used -= found->second.bytes;
  static_cast<void>(all.machine->memory->free(address));
  all.allocations.erase(found);
  return CUDA_SUCCESS;
}

const std::pair<const std::uint64_t, Owned>* owner_of(const State& all, CUdeviceptr address) {
  auto after = all.allocations.upper_bound(address);
  if (after == all.allocations.begin()) return nullptr;
  --after;
  return address - after->first < after->second.bytes ? &*after : nullptr;
}

}  // namespace flashmoe::vgpu::driver

VGPU_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, std::size_t bytes) {
  return with_context("cuMemAlloc", [&](State& all, Context& context) {
    return allocate(all, context, bytes, Owned::Kind::device, "cuMemAlloc", out, nullptr);
  });
}

VGPU_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  return with_context("cuMemFree", [&](State& all, Context&) {
    if (address == 0) return CUDA_SUCCESS;  // freeing nothing is allowed
    const CUresult refused = all.refuse_while_capturing();
    return refused != CUDA_SUCCESS ? refused : release(all, address);
  });
}

VGPU_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  return with_context("cuMemAllocManaged", [&](State& all, Context& context) {
    if (flags != 1 && flags != 2) return CUDA_ERROR_INVALID_VALUE;  // CU_MEM_ATTACH_GLOBAL or _HOST
    return allocate(all, context, bytes, Owned::Kind::managed, "cuMemAllocManaged", out, nullptr);
  });
}

VGPU_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, std::size_t* pitch, std::size_t width, std::size_t height,
                                        unsigned element_bytes) {
  return with_context("cuMemAllocPitch", [&](State& all, Context& context) {
    if (pitch == nullptr || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
    if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) return CUDA_ERROR_INVALID_VALUE;
    constexpr std::size_t row_alignment = 512;
    const std::size_t row = (width + row_alignment - 1) / row_alignment * row_alignment;
    if (row < width || height > SIZE_MAX / row) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = allocate(all, context, row * height, Owned::Kind::device, "cuMemAllocPitch", out, nullptr);
    if (result == CUDA_SUCCESS) *pitch = row;
    return result;
  });
}

VGPU_EXPORT CUresult cuMemHostAlloc(void** out, std::size_t bytes, unsigned /*flags*/) {
  return with_context("cuMemHostAlloc", [&](State& all, Context& context) {
    CUdeviceptr address = 0;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = allocate(all, context, bytes, Owned::Kind::host, "cuMemHostAlloc", &address, nullptr);
    *out = reinterpret_cast<void*>(address);
    return result;
  });
}
VGPU_EXPORT CUresult cuMemAllocHost_v2(void** out, std::size_t bytes) {
  return cuMemHostAlloc(out, bytes, 0);
}
VGPU_EXPORT CUresult cuMemFreeHost(void* address) {
  return with_context("cuMemFreeHost", [&](State& all, Context&) {
    return address == nullptr ? CUDA_SUCCESS : release(all, reinterpret_cast<CUdeviceptr>(address));
  });
}

VGPU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* host, unsigned flags) {
  return with_context("cuMemHostGetDevicePointer", [&](State& all, Context& context) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto* const owner = owner_of(all, reinterpret_cast<CUdeviceptr>(host));
    if (owner != nullptr) {
      *out = reinterpret_cast<CUdeviceptr>(host);
      return CUDA_SUCCESS;
    }
    *out = mirror_of(all, context, host);
    return *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

VGPU_EXPORT CUresult cuMemHostGetFlags(unsigned* flags, void* host) {
  return with_context("cuMemHostGetFlags", [&](State& all, Context&) {
    if (flags == nullptr || owner_of(all, reinterpret_cast<CUdeviceptr>(host)) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    *flags = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuMemHostRegister_v2(void* host, std::size_t bytes, unsigned /*flags*/) {
  return with_context("cuMemHostRegister", [&](State& all, Context&) {
    if (host == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    return all.registered.emplace(host, Registered{.bytes = bytes}).second ? CUDA_SUCCESS
                                                                           : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  });
}
VGPU_EXPORT CUresult cuMemHostUnregister(void* host) {
  return with_context("cuMemHostUnregister", [&](State& all, Context&) {
    const auto found = all.registered.find(host);
    if (found == all.registered.end()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    static_cast<void>(release(all, found->second.mirror));  // if there is one
    all.registered.erase(found);
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return with_context("cuMemGetInfo", [&](State& all, Context&) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *total = all.machine->memory_bytes();
    *free = *total - std::min<std::uint64_t>(*total, all.machine->memory->bytes_in_use());
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  return with_context("cuMemGetAddressRange", [&](State& all, Context&) {
    const auto* const owner = owner_of(all, address);
    if (owner == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = owner->first;
    if (bytes != nullptr) *bytes = owner->second.bytes;
    return CUDA_SUCCESS;
  });
}

namespace {

template <class T>
void answer(void* data, T value) {
  std::memcpy(data, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): a handle is a value
}

CUresult pointer_attribute(State& all, void* data, int attribute, CUdeviceptr address) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto* const entry = owner_of(all, address);
  if (entry == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Owned& owned = entry->second;
  const bool is_device = owned.kind == Owned::Kind::device || owned.kind == Owned::Kind::pooled;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer(data, handle_of<CUcontext>(owned.context)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer(data, owned.kind == Owned::Kind::host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer(data, address), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (is_device) return CUDA_ERROR_INVALID_VALUE;
      return answer(data, behind_mirror(all, address)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return answer(data, 0), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return answer(data, owned.id), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer(data, owned.kind == Owned::Kind::managed ? 1U : 0U), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer(data, 0), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer(data, entry->first), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer(data, static_cast<std::size_t>(owned.bytes)), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer(data, 1), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer(data, std::uint64_t{0}), CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer(data, 3), CUDA_SUCCESS;  // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer(data, handle_of<CUmemoryPool>(owned.pool)), CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

VGPU_EXPORT CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr address) {
  return with_context("cuPointerGetAttribute",
                      [&](State& all, Context&) { return pointer_attribute(all, data, attribute, address); });
}

VGPU_EXPORT CUresult cuPointerGetAttributes(unsigned count, int* attributes, void** data, CUdeviceptr address) {
  return with_context("cuPointerGetAttributes", [&](State& all, Context&) {
    if (attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // Documented: an address nobody knows is no error here, its answers are zero.
    const bool known = owner_of(all, address) != nullptr;
    for (unsigned i = 0; i < count; ++i) {
      if (known && pointer_attribute(all, data[i], attributes[i], address) == CUDA_SUCCESS) continue;
      const bool wide =
          attributes[i] == CU_POINTER_ATTRIBUTE_CONTEXT || attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
          attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
          attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
          attributes[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID || attributes[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE;
      if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED)
        answer(data[i], 0U);
      else if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
        answer(data[i], -2);
      else if (wide)
        answer(data[i], std::uint64_t{0});
      else
        answer(data[i], 0);
    }
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuPointerSetAttribute(const void* value, int attribute, CUdeviceptr address) {
  return with_context("cuPointerSetAttribute", [&](State& all, Context&) {
    if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || owner_of(all, address) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;  // copies are synchronous anyway
  });
}
