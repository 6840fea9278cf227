// Arrays, textures and surfaces, and copies of boxes (3D), by the driver's functions of the same names.
#include <algorithm>
#include <cstddef>

#include "vgpu/cudart/calls.hpp"

namespace flashmoe::vgpu::cudart {
namespace {

// A description of channels as the driver has it; 0: none of its formats.
int format_of(const cudaChannelFormatDesc& channels) {
  const bool is_wide = channels.x == 32, is_short = channels.x == 16;
  if (!is_wide && !is_short && channels.x != 8) return 0;
  switch (channels.f) {
    case cudaChannelFormatKindSigned:
      return is_wide ? CU_AD_FORMAT_SIGNED_INT32 : is_short ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_SIGNED_INT8;
    case cudaChannelFormatKindUnsigned:
      return is_wide    ? CU_AD_FORMAT_UNSIGNED_INT32
             : is_short ? CU_AD_FORMAT_UNSIGNED_INT16
                        : CU_AD_FORMAT_UNSIGNED_INT8;
    case cudaChannelFormatKindFloat:
      return is_wide ? CU_AD_FORMAT_FLOAT : is_short ? CU_AD_FORMAT_HALF : 0;
    default:
      return 0;
  }
}
unsigned count_of(const cudaChannelFormatDesc& channels) {
  return (channels.x != 0 ? 1U : 0U) + (channels.y != 0 ? 1U : 0U) + (channels.z != 0 ? 1U : 0U) +
         (channels.w != 0 ? 1U : 0U);
}
cudaChannelFormatDesc channels_of(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  cudaChannelFormatDesc channels{};
  int bits = 32;
  if (array.Format == CU_AD_FORMAT_UNSIGNED_INT8 || array.Format == CU_AD_FORMAT_SIGNED_INT8) bits = 8;
  if (array.Format == CU_AD_FORMAT_UNSIGNED_INT16 || array.Format == CU_AD_FORMAT_SIGNED_INT16 ||
      array.Format == CU_AD_FORMAT_HALF)
    bits = 16;
  channels.x = bits;
  if (array.NumChannels > 1) channels.y = bits;
  if (array.NumChannels > 2) channels.z = channels.w = bits;
  if (array.Format >= CU_AD_FORMAT_HALF)
    channels.f = cudaChannelFormatKindFloat;
  else
    channels.f = array.Format >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned : cudaChannelFormatKindUnsigned;
  return channels;
}
std::size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  return static_cast<std::size_t>(channels_of(array).x) / 8 * array.NumChannels;
}

cudaError_t create_array(CUarray* array, const cudaChannelFormatDesc* channels, const cudaExtent& extent,
                         unsigned flags) {
  return on_device([&]() -> CUresult {
    if (channels == nullptr || format_of(*channels) == 0) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_ARRAY3D_DESCRIPTOR asked{.Width = extent.width,
                                        .Height = extent.height,
                                        .Depth = extent.depth,
                                        .Format = format_of(*channels),
                                        .NumChannels = count_of(*channels),
                                        .Flags = flags};
    return cuArray3DCreate_v2(array, &asked);
  });
}

int memory_type(bool is_host, bool is_known) {
  if (!is_known) return CU_MEMORYTYPE_UNIFIED;
  return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}
int source_type(cudaMemcpyKind kind) {
  return memory_type(kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice, kind != cudaMemcpyDefault);
}
int destination_type(cudaMemcpyKind kind) {
  return memory_type(kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost, kind != cudaMemcpyDefault);
}

// Rows of `width` bytes between an array and memory.
CUresult copy_rows(bool to_array, CUarray array, std::size_t x, std::size_t y, const void* memory, std::size_t pitch,
                   std::size_t width, std::size_t height, cudaMemcpyKind kind, CUstream stream, bool waits) {
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = to_array ? source_type(kind) : CU_MEMORYTYPE_ARRAY;
  copy.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : destination_type(kind);
  copy.srcArray = copy.dstArray = array;
  copy.srcHost = memory;
  copy.dstHost = const_cast<void*>(memory);
  copy.srcDevice = copy.dstDevice = address_of(memory);
  copy.srcPitch = copy.dstPitch = pitch;
  (to_array ? copy.dstXInBytes : copy.srcXInBytes) = x;
  (to_array ? copy.dstY : copy.srcY) = y;
  copy.WidthInBytes = width;
  copy.Height = height;
  return waits ? cuMemcpy2DUnaligned_v2(&copy) : cuMemcpy2DAsync_v2(&copy, stream);
}

// Bytes that go on in the next row.
CUresult copy_whole_rows(bool to_array, CUarray array, std::size_t x, std::size_t y, const void* memory,
                         std::size_t bytes, cudaMemcpyKind kind) {
  CUDA_ARRAY3D_DESCRIPTOR described{};
  if (const CUresult wrong = cuArray3DGetDescriptor_v2(&described, array); wrong != CUDA_SUCCESS) return wrong;
  const std::size_t row = described.Width * element_bytes(described);
  if (x > row) return CUDA_ERROR_INVALID_VALUE;
  const auto* at = static_cast<const std::byte*>(memory);
  while (bytes > 0) {
    const std::size_t here = std::min(bytes, row - x);
    const CUresult result = copy_rows(to_array, array, x, y, at, here, here, 1, kind, nullptr, true);
    if (result != CUDA_SUCCESS) return result;
    at += here;
    bytes -= here;
    x = 0;
    ++y;
  }
  return CUDA_SUCCESS;
}

}  // namespace

// Documented: where an array takes part, x and the width are counted in its elements, else in bytes.
CUresult driver_box(const cudaMemcpy3DParms* what, CUDA_MEMCPY3D& copy) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto unit_of = [](CUarray array, std::size_t& unit) {
    CUDA_ARRAY3D_DESCRIPTOR described{};
    if (array == nullptr) return CUDA_SUCCESS;
    const CUresult result = cuArray3DGetDescriptor_v2(&described, array);
    if (result == CUDA_SUCCESS) unit = element_bytes(described);
    return result;
  };
  std::size_t to_unit = 1, from_unit = 1;
  if (const CUresult wrong = unit_of(what->dstArray, to_unit); wrong != CUDA_SUCCESS) return wrong;
  if (const CUresult wrong = unit_of(what->srcArray, from_unit); wrong != CUDA_SUCCESS) return wrong;
  copy = {};
  copy.srcMemoryType = what->srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : source_type(what->kind);
  copy.srcArray = what->srcArray;
  copy.srcHost = what->srcPtr.ptr;
  copy.srcDevice = address_of(what->srcPtr.ptr);
  copy.srcPitch = what->srcPtr.pitch;
  copy.srcHeight = what->srcPtr.ysize;
  copy.srcXInBytes = what->srcPos.x * from_unit;
  copy.srcY = what->srcPos.y;
  copy.srcZ = what->srcPos.z;
  copy.dstMemoryType = what->dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : destination_type(what->kind);
  copy.dstArray = what->dstArray;
  copy.dstHost = what->dstPtr.ptr;
  copy.dstDevice = address_of(what->dstPtr.ptr);
  copy.dstPitch = what->dstPtr.pitch;
  copy.dstHeight = what->dstPtr.ysize;
  copy.dstXInBytes = what->dstPos.x * to_unit;
  copy.dstY = what->dstPos.y;
  copy.dstZ = what->dstPos.z;
  copy.WidthInBytes = what->extent.width * (what->srcArray != nullptr ? from_unit : to_unit);
  copy.Height = what->extent.height;
  copy.Depth = what->extent.depth;
  return CUDA_SUCCESS;
}

namespace {

CUresult copy_box(const cudaMemcpy3DParms* what, CUstream stream, bool waits) {
  CUDA_MEMCPY3D copy{};
  if (const CUresult wrong = driver_box(what, copy); wrong != CUDA_SUCCESS) return wrong;
  if (copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0) return CUDA_SUCCESS;
  return waits ? cuMemcpy3D_v2(&copy) : cuMemcpy3DAsync_v2(&copy, stream);
}

bool driver_resource(const cudaResourceDesc& what, CUDA_RESOURCE_DESC& to) {
  to = {};
  to.resType = what.resType;
  to.flags = what.flags;
  switch (what.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      to.res.array.hArray = what.res.array.array;
      return true;
    case CU_RESOURCE_TYPE_LINEAR:
      to.res.linear.devPtr = address_of(what.res.linear.devPtr);
      to.res.linear.format = format_of(what.res.linear.desc);
      to.res.linear.numChannels = count_of(what.res.linear.desc);
      to.res.linear.sizeInBytes = what.res.linear.sizeInBytes;
      return true;
    case CU_RESOURCE_TYPE_PITCH2D:
      to.res.pitch2D.devPtr = address_of(what.res.pitch2D.devPtr);
      to.res.pitch2D.format = format_of(what.res.pitch2D.desc);
      to.res.pitch2D.numChannels = count_of(what.res.pitch2D.desc);
      to.res.pitch2D.width = what.res.pitch2D.width;
      to.res.pitch2D.height = what.res.pitch2D.height;
      to.res.pitch2D.pitchInBytes = what.res.pitch2D.pitchInBytes;
      return true;
    default:
      return false;
  }
}

CUDA_TEXTURE_DESC driver_texture(const cudaTextureDesc& how) {
  CUDA_TEXTURE_DESC to{};
  for (int i = 0; i < 3; ++i) to.addressMode[i] = how.addressMode[i];
  for (int i = 0; i < 4; ++i) to.borderColor[i] = how.borderColor[i];
  to.filterMode = how.filterMode;
  constexpr unsigned read_as_integer = 1, normalised = 2;  // CU_TRSF_...
  to.flags = (how.readMode == 0 ? read_as_integer : 0U) | (how.normalizedCoords != 0 ? normalised : 0U);
  return to;
}

}  // namespace
}  // namespace flashmoe::vgpu::cudart

using namespace flashmoe::vgpu::cudart;

VGPU_RUNTIME cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
VGPU_RUNTIME cudaError_t cudaMallocArray(CUarray* array, const cudaChannelFormatDesc* channels, std::size_t width,
                                         std::size_t height, unsigned flags) {
  return create_array(array, channels, {width, height, 0}, flags);
}
VGPU_RUNTIME cudaError_t cudaMalloc3DArray(CUarray* array, const cudaChannelFormatDesc* channels, cudaExtent extent,
                                           unsigned flags) {
  return create_array(array, channels, extent, flags);
}
VGPU_FORWARD(cudaFreeArray, (CUarray array), array == nullptr ? CUDA_SUCCESS : cuArrayDestroy(array))
VGPU_RUNTIME cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent, unsigned* flags,
                                          CUarray array) {
  return on_device([&]() -> CUresult {
    CUDA_ARRAY3D_DESCRIPTOR described{};
    const CUresult result = cuArray3DGetDescriptor_v2(&described, array);
    if (result != CUDA_SUCCESS) return result;
    if (channels != nullptr) *channels = channels_of(described);
    if (extent != nullptr) *extent = {described.Width, described.Height, described.Depth};
    if (flags != nullptr) *flags = described.Flags;
    return CUDA_SUCCESS;
  });
}
VGPU_RUNTIME cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* channels, CUarray array) {
  return channels == nullptr ? kept(cudaErrorInvalidValue) : cudaArrayGetInfo(channels, nullptr, nullptr, array);
}

VGPU_RUNTIME cudaError_t cudaMalloc3D(cudaPitchedPtr* out, cudaExtent extent) {
  return on_device([&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    std::size_t pitch = 0;
    const CUresult result = cuMemAllocPitch_v2(&address, &pitch, extent.width, extent.height * extent.depth, 16);
    if (result == CUDA_SUCCESS) *out = {reinterpret_cast<void*>(address), pitch, extent.width, extent.height};
    return result;
  });
}

VGPU_FORWARD(cudaMemcpy2DToArray,
             (CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width,
              std::size_t height, cudaMemcpyKind kind),
             copy_rows(true, to, x, y, from, pitch, width, height, kind, nullptr, true))
VGPU_RUNTIME_ALIAS(cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds);
VGPU_FORWARD(cudaMemcpy2DToArrayAsync,
             (CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t pitch, std::size_t width,
              std::size_t height, cudaMemcpyKind kind, CUstream stream),
             copy_rows(true, to, x, y, from, pitch, width, height, kind, stream, false))
VGPU_RUNTIME_ALIAS(cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz);
VGPU_FORWARD(cudaMemcpy2DFromArray,
             (void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y, std::size_t width,
              std::size_t height, cudaMemcpyKind kind),
             copy_rows(false, from, x, y, to, pitch, width, height, kind, nullptr, true))
VGPU_RUNTIME_ALIAS(cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds);
VGPU_FORWARD(cudaMemcpy2DFromArrayAsync,
             (void* to, std::size_t pitch, CUarray from, std::size_t x, std::size_t y, std::size_t width,
              std::size_t height, cudaMemcpyKind kind, CUstream stream),
             copy_rows(false, from, x, y, to, pitch, width, height, kind, stream, false))
VGPU_RUNTIME_ALIAS(cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz);
VGPU_FORWARD(cudaMemcpyToArray,
             (CUarray to, std::size_t x, std::size_t y, const void* from, std::size_t bytes, cudaMemcpyKind kind),
             copy_whole_rows(true, to, x, y, from, bytes, kind))
VGPU_RUNTIME_ALIAS(cudaMemcpyToArray, cudaMemcpyToArray_ptds);
VGPU_FORWARD(cudaMemcpyFromArray,
             (void* to, CUarray from, std::size_t x, std::size_t y, std::size_t bytes, cudaMemcpyKind kind),
             copy_whole_rows(false, from, x, y, to, bytes, kind))
VGPU_RUNTIME_ALIAS(cudaMemcpyFromArray, cudaMemcpyFromArray_ptds);
VGPU_FORWARD(cudaMemcpy3D, (const cudaMemcpy3DParms* what), copy_box(what, nullptr, true))
VGPU_RUNTIME_ALIAS(cudaMemcpy3D, cudaMemcpy3D_ptds);
VGPU_FORWARD(cudaMemcpy3DAsync, (const cudaMemcpy3DParms* what, CUstream stream), copy_box(what, stream, false))
VGPU_RUNTIME_ALIAS(cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz);

VGPU_RUNTIME cudaError_t cudaCreateTextureObject(std::uint64_t* out, const cudaResourceDesc* what,
                                                 const cudaTextureDesc* how, const void* view) {
  return on_device([&]() -> CUresult {
    CUDA_RESOURCE_DESC resource{};
    if (what == nullptr || how == nullptr || !driver_resource(*what, resource)) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_TEXTURE_DESC texture = driver_texture(*how);
    return cuTexObjectCreate(out, &resource, &texture, view);
  });
}
VGPU_FORWARD(cudaDestroyTextureObject, (std::uint64_t texture), cuTexObjectDestroy(texture))
VGPU_RUNTIME cudaError_t cudaCreateSurfaceObject(std::uint64_t* out, const cudaResourceDesc* what) {
  return on_device([&]() -> CUresult {
    CUDA_RESOURCE_DESC resource{};
    if (what == nullptr || !driver_resource(*what, resource)) return CUDA_ERROR_INVALID_VALUE;
    return cuSurfObjectCreate(out, &resource);
  });
}
VGPU_FORWARD(cudaDestroySurfaceObject, (std::uint64_t surface), cuSurfObjectDestroy(surface))
