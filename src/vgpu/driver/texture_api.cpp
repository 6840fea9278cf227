// Arrays, and objects through which kernels read and write them as textures and surfaces. Layers, cubes and mip levels
// there are none of. Initcheck does not watch them: kernels write surfaces where nobody looks.
#include <algorithm>

#include "vgpu/driver/allocate.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/watch.hpp"
#include "vgpu/exec/texture.hpp"

using namespace flashmoe::vgpu::driver;
using flashmoe::vgpu::exec::TexelFormat;
using flashmoe::vgpu::exec::Texture;
using flashmoe::vgpu::exec::texture_objects;
using flashmoe::vgpu::exec::TextureEdge;

namespace {

constexpr unsigned surface_flag = 2;     // CUDA_ARRAY3D_SURFACE_LDST, which every array allows
constexpr unsigned read_as_integer = 1;  // CU_TRSF_READ_AS_INTEGER
constexpr unsigned is_normalised = 2;    // CU_TRSF_NORMALIZED_COORDINATES

bool texel_format(int format, unsigned channels, Texture& to) {
  to.channels = channels;
  if (channels != 1 && channels != 2 && channels != 4) return false;
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      to.format = TexelFormat::u8;
      return true;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      to.format = TexelFormat::u16;
      return true;
    case CU_AD_FORMAT_UNSIGNED_INT32:
      to.format = TexelFormat::u32;
      return true;
    case CU_AD_FORMAT_SIGNED_INT8:
      to.format = TexelFormat::s8;
      return true;
    case CU_AD_FORMAT_SIGNED_INT16:
      to.format = TexelFormat::s16;
      return true;
    case CU_AD_FORMAT_SIGNED_INT32:
      to.format = TexelFormat::s32;
      return true;
    case CU_AD_FORMAT_HALF:
      to.format = TexelFormat::f16;
      return true;
    case CU_AD_FORMAT_FLOAT:
      to.format = TexelFormat::f32;
      return true;
    default:
      return false;
  }
}

CUresult create_array(const char* function, CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& asked) {
  return with_context(function, [&](State& all, Context& context) {
    Texture texel;
    if (out == nullptr || asked.Width == 0 || (asked.Depth != 0 && asked.Height == 0)) return CUDA_ERROR_INVALID_VALUE;
    if (!texel_format(asked.Format, asked.NumChannels, texel) || (asked.Flags & ~surface_flag) != 0) {
      log_once(
          "arrays of layers, cubes, or of other formats than integers, halves and floats: CUDA_ERROR_NOT_SUPPORTED");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    auto made = std::make_unique<Array>();
    made->context = &context;
    made->described = asked;
    const std::size_t most = all.machine->memory_bytes();
    if (asked.Width > most || made->rows() > most / asked.Width || made->slices() > most / asked.Width / made->rows())
      return CUDA_ERROR_OUT_OF_MEMORY;
    made->row_bytes = asked.Width * texel.texel_bytes();
    const std::size_t bytes = made->row_bytes * made->rows() * made->slices();
    const CUresult result = allocate(all, context, bytes, Owned::Kind::device, function, &made->address, nullptr);
    if (result != CUDA_SUCCESS) return result;
    host_wrote(made->address, bytes);
    *out = handle_of<CUarray>(all.arrays.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}

// The memory that a description means, as a texture of it.
CUresult described(const State& all, const CUDA_RESOURCE_DESC& what, Texture& to) {
  bool has_format = false;
  switch (what.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const Array* const array = all.arrays.find(what.res.array.hArray);
      if (array == nullptr) return CUDA_ERROR_INVALID_VALUE;
      has_format = texel_format(array->described.Format, array->described.NumChannels, to);
      to.address = array->address;
      to.extent = {array->described.Width, array->rows(), array->slices()};
      to.dimensions = array->described.Depth != 0 ? 3 : array->described.Height != 0 ? 2 : 1;
      to.row_bytes = array->row_bytes;
      to.slice_bytes = array->row_bytes * array->rows();
      break;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
      const auto& linear = what.res.linear;
      has_format = texel_format(linear.format, linear.numChannels, to);
      if (!is_device_range(all, linear.devPtr, linear.sizeInBytes)) return CUDA_ERROR_INVALID_VALUE;
      to.address = linear.devPtr;
      to.is_plain_memory = true;
      if (has_format) to.extent[0] = linear.sizeInBytes / to.texel_bytes();
      break;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
      const auto& pitched = what.res.pitch2D;
      has_format = texel_format(pitched.format, pitched.numChannels, to);
      const std::size_t row = pitched.width * (has_format ? to.texel_bytes() : 1);
      if (pitched.width == 0 || pitched.height == 0 || row > pitched.pitchInBytes ||
          !is_device_range(all, pitched.devPtr, (pitched.height - 1) * pitched.pitchInBytes + row))
        return CUDA_ERROR_INVALID_VALUE;
      to.address = pitched.devPtr;
      to.extent = {pitched.width, pitched.height, 1};
      to.dimensions = 2;
      to.row_bytes = pitched.pitchInBytes;
      break;
    }
    default:
      break;
  }
  if (has_format) return CUDA_SUCCESS;
  log_once(
      "textures of mipmapped arrays or of other formats than integers, halves and floats: CUDA_ERROR_NOT_SUPPORTED");
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult how_it_is_read(const CUDA_TEXTURE_DESC& how, Texture& to) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (how.addressMode[i] < 0 || how.addressMode[i] > CU_TR_ADDRESS_MODE_BORDER) return CUDA_ERROR_INVALID_VALUE;
    to.edges[i] = static_cast<TextureEdge>(how.addressMode[i]);
  }
  const bool is_wide = to.format == TexelFormat::u32 || to.format == TexelFormat::s32;
  const bool is_float = to.format == TexelFormat::f16 || to.format == TexelFormat::f32;
  to.reads_floats = !is_wide && !is_float && (how.flags & read_as_integer) == 0;
  to.is_normalised = !to.is_plain_memory && (how.flags & is_normalised) != 0;
  to.is_filtered = !to.is_plain_memory && how.filterMode == CU_TR_FILTER_MODE_LINEAR;
  // Documented: only what is read as floats can be filtered.
  if (to.is_filtered && !to.reads_floats && !is_float) return CUDA_ERROR_INVALID_VALUE;
  std::copy(std::begin(how.borderColor), std::end(how.borderColor), to.border.begin());
  return CUDA_SUCCESS;
}

CUresult destroy(const char* function, std::uint64_t handle) {
  return with_context(function, [&](State&, Context&) {
    return texture_objects().erase(handle) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace

VGPU_EXPORT CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* asked) {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return create_array("cuArrayCreate", out,
                      {.Width = asked->Width,
                       .Height = asked->Height,
                       .Depth = 0,
                       .Format = asked->Format,
                       .NumChannels = asked->NumChannels,
                       .Flags = 0});
}
VGPU_EXPORT CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* asked) {
  return asked == nullptr ? CUDA_ERROR_INVALID_VALUE : create_array("cuArray3DCreate", out, *asked);
}
VGPU_EXPORT CUresult cuArrayDestroy(CUarray handle) {
  return with_context("cuArrayDestroy", [&](State& all, Context&) {
    const Array* const array = all.arrays.find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = release(all, array->address);
    all.arrays.remove(handle);
    return result;
  });
}
VGPU_EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return with_context("cuArray3DGetDescriptor", [&](State& all, Context&) {
    const Array* const array = all.arrays.find(handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = array->described;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  CUDA_ARRAY3D_DESCRIPTOR whole{};
  const CUresult result = cuArray3DGetDescriptor_v2(&whole, handle);
  if (result != CUDA_SUCCESS) return result;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = {.Width = whole.Width, .Height = whole.Height, .Format = whole.Format, .NumChannels = whole.NumChannels};
  return CUDA_SUCCESS;
}

VGPU_EXPORT CUresult cuTexObjectCreate(std::uint64_t* out, const CUDA_RESOURCE_DESC* what, const CUDA_TEXTURE_DESC* how,
                                       const void* view) {
  return with_context("cuTexObjectCreate", [&](State& all, Context&) {
    if (out == nullptr || what == nullptr || how == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (view != nullptr) {
      log_once("textures with a resource view: CUDA_ERROR_NOT_SUPPORTED");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    Texture made;
    if (const CUresult wrong = described(all, *what, made); wrong != CUDA_SUCCESS) return wrong;
    if (const CUresult wrong = how_it_is_read(*how, made); wrong != CUDA_SUCCESS) return wrong;
    *out = all.next_id++;
    texture_objects().emplace(*out, made);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuTexObjectDestroy(std::uint64_t handle) {
  return destroy("cuTexObjectDestroy", handle);
}
VGPU_EXPORT CUresult cuSurfObjectCreate(std::uint64_t* out, const CUDA_RESOURCE_DESC* what) {
  return with_context("cuSurfObjectCreate", [&](State& all, Context&) {
    if (out == nullptr || what == nullptr || what->resType != CU_RESOURCE_TYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    Texture made;
    if (const CUresult wrong = described(all, *what, made); wrong != CUDA_SUCCESS) return wrong;
    *out = all.next_id++;
    texture_objects().emplace(*out, made);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuSurfObjectDestroy(std::uint64_t handle) {
  return destroy("cuSurfObjectDestroy", handle);
}
