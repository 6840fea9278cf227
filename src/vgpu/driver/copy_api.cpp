// Copies and fills, 1D to 3D, synchronous and not: all of them are done when the call returns, unless their stream is
// capturing.
#include <fmt/format.h>

#include <cstring>

#include "vgpu/driver/allocate.hpp"
#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch_time.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/registered.hpp"
#include "vgpu/driver/watch.hpp"

namespace flashmoe::vgpu::driver {

bool is_device_range(const State& all, CUdeviceptr address, std::size_t bytes) {
  const auto found = all.machine->memory->find(address);
  return found && found->is_live && bytes <= found->bytes - (address - found->address);
}

namespace {

enum class Side { host, device, either };

bool is_valid(const State& all, Side side, std::uint64_t address, std::size_t bytes) {
  if (address == 0) return false;
  const bool in_device = all.machine->memory->is_mapped(address, 1);
  if (side == Side::device || in_device) return is_device_range(all, address, bytes);
  return true;  // host memory: the caller's word
}

// `side`: "destination" or "source".
CUresult refuse_range(const State& all, const char* what, std::size_t bytes, const char* side, std::uint64_t address) {
  log_once(
      fmt::format("a {} of {} bytes refused: its {} is {}", what, bytes, side, all.machine->memory->describe(address)));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy(State& all, Side to_side, std::uint64_t to, Side from_side, std::uint64_t from, std::size_t bytes) {
  if (bytes == 0) return CUDA_SUCCESS;
  if (!is_valid(all, to_side, to, bytes)) return refuse_range(all, "copy", bytes, "destination", to);
  if (!is_valid(all, from_side, from, bytes)) return refuse_range(all, "copy", bytes, "source", from);
  std::memmove(reinterpret_cast<void*>(behind_mirror(all, to)), reinterpret_cast<const void*>(behind_mirror(all, from)),
               bytes);
  copied(*all.machine->memory, to, from, bytes);
  const bool to_host = to_side == Side::host || !all.machine->memory->is_mapped(to, 1);
  if (to_host) copied_to_host(*all.machine->memory, from, bytes);
  return CUDA_SUCCESS;
}

bool is_host_side(const State& all, Side side, std::uint64_t address) {
  if (side != Side::either) return side == Side::host;
  if (!all.machine->memory->is_mapped(address, 1)) return true;
  const auto after = all.allocations.upper_bound(address);
  return after != all.allocations.begin() && std::prev(after)->second.kind == Owned::Kind::host;
}

Moved moved_by_copy(const State& all, Side to_side, std::uint64_t to, Side from_side, std::uint64_t from,
                    std::size_t bytes) {
  const bool to_host = is_host_side(all, to_side, to), from_host = is_host_side(all, from_side, from);
  if (to_host && from_host) return {};
  if (to_host || from_host) return {.pcie_bytes = static_cast<double>(bytes)};
  return {.dram_bytes = 2 * static_cast<double>(bytes)};
}

NodeKind kind_of_copy(const State& all, Side to_side, std::uint64_t to, Side from_side, std::uint64_t from,
                      bool is_flat) {
  const auto memory = [&all](Side side, std::uint64_t address) {
    return is_host_side(all, side, address) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  };
  return {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
          .to = memory(to_side, to),
          .from = memory(from_side, from),
          .is_flat = is_flat};
}

// Puts what was done into the stream's time.
CUresult take_time(State& all, Context& context, CUstream handle, CUresult result, const Moved& moved) {
  Stream* const stream = all.stream(handle, context);
  if (result == CUDA_SUCCESS && stream != nullptr)
    stream->ready_ns = all.start_ns(*stream) + copy_time_ns(*all.machine, moved);
  return result;
}

CUresult copy_1d(const char* function, Side to_side, std::uint64_t to, Side from_side, std::uint64_t from,
                 std::size_t bytes, CUstream stream = nullptr) {
  return with_context(function, [&](State& all, Context& context) {
    Stream* const there = all.stream(stream, context);
    if (there == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const NodeKind kind = kind_of_copy(all, to_side, to, from_side, from, true);
    return perform(all, context, *there, stream, kind, [=](State& later, Context& now, CUstream replay) {
      return take_time(later, now, replay, copy(later, to_side, to, from_side, from, bytes),
                       moved_by_copy(later, to_side, to, from_side, from, bytes));
    });
  });
}

std::uint64_t number(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

struct Plane {
  Side side = Side::either;
  std::uint64_t address = 0;  // of the first byte copied
  std::size_t pitch = 0, slice = 0;
};

struct Corner {
  std::size_t x_bytes = 0, y = 0, z = 0;
};
struct Box {
  std::size_t width_bytes = 0, height = 1, depth = 1;
};

// The part of an array that the box covers from its corner on.
CUresult array_plane(const State& all, CUarray handle, const Corner& at, const Box& box, Plane& out) {
  const Array* const array = all.arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto is_inside = [](std::size_t first, std::size_t count, std::size_t all_of_them) {
    return first <= all_of_them && count <= all_of_them - first;
  };
  if (!is_inside(at.x_bytes, box.width_bytes, array->row_bytes) || !is_inside(at.y, box.height, array->rows()) ||
      !is_inside(at.z, box.depth, array->slices()))
    return CUDA_ERROR_INVALID_VALUE;
  out.side = Side::device;
  out.pitch = array->row_bytes;
  out.slice = array->row_bytes * array->rows();
  out.address = array->address + at.z * out.slice + at.y * out.pitch + at.x_bytes;
  return CUDA_SUCCESS;
}

Plane plane(int type, const void* host, CUdeviceptr device, const Corner& at, std::size_t pitch, std::size_t height,
            std::size_t width) {
  Plane out;
  out.side = type == CU_MEMORYTYPE_HOST ? Side::host : type == CU_MEMORYTYPE_DEVICE ? Side::device : Side::either;
  out.pitch = pitch == 0 ? width : pitch;
  out.slice = out.pitch * height;
  out.address = (type == CU_MEMORYTYPE_HOST ? number(host) : device) + at.z * out.slice + at.y * out.pitch + at.x_bytes;
  return out;
}

CUresult copy_planes(State& all, Context& context, CUstream stream, const Plane& to, const Plane& from,
                     std::size_t width, std::size_t height, std::size_t depth) {
  if (width > to.pitch || width > from.pitch) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t z = 0; z < depth; ++z)
    for (std::size_t y = 0; y < height; ++y) {
      const CUresult result = copy(all, to.side, to.address + z * to.slice + y * to.pitch, from.side,
                                   from.address + z * from.slice + y * from.pitch, width);
      if (result != CUDA_SUCCESS) return result;
    }
  return take_time(all, context, stream, CUDA_SUCCESS,
                   moved_by_copy(all, to.side, to.address, from.side, from.address, width * height * depth));
}

CUresult copy_3d(const char* function, const CUDA_MEMCPY3D* what, CUstream stream = nullptr) {
  return with_context(function, [&](State& all, Context& context) {
    if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Stream* const there = all.stream(stream, context);
    if (there == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const Box box{what->WidthInBytes, what->Height, what->Depth};
    const Corner to_at{what->dstXInBytes, what->dstY, what->dstZ}, from_at{what->srcXInBytes, what->srcY, what->srcZ};
    const auto height = [&](std::size_t given) { return given == 0 ? what->Height : given; };
    Plane to = plane(what->dstMemoryType, what->dstHost, what->dstDevice, to_at, what->dstPitch,
                     height(what->dstHeight), box.width_bytes);
    Plane from = plane(what->srcMemoryType, what->srcHost, what->srcDevice, from_at, what->srcPitch,
                       height(what->srcHeight), box.width_bytes);
    CUresult found = CUDA_SUCCESS;
    if (what->dstMemoryType == CU_MEMORYTYPE_ARRAY) found = array_plane(all, what->dstArray, to_at, box, to);
    if (what->srcMemoryType == CU_MEMORYTYPE_ARRAY && found == CUDA_SUCCESS)
      found = array_plane(all, what->srcArray, from_at, box, from);
    if (found != CUDA_SUCCESS) return found;
    const NodeKind kind =
        kind_of_copy(all, to.side, to.address, from.side, from.address, box.height <= 1 && box.depth <= 1);
    return perform(all, context, *there, stream, kind, [to, from, box](State& later, Context& now, CUstream replay) {
      return copy_planes(later, now, replay, to, from, box.width_bytes, box.height, box.depth);
    });
  });
}

CUresult copy_2d(const char* function, const CUDA_MEMCPY2D* what, CUstream stream = nullptr) {
  if (what == nullptr) return copy_3d(function, nullptr, stream);
  CUDA_MEMCPY3D whole{};
  whole.srcXInBytes = what->srcXInBytes;
  whole.srcY = what->srcY;
  whole.srcMemoryType = what->srcMemoryType;
  whole.srcHost = what->srcHost;
  whole.srcDevice = what->srcDevice;
  whole.srcArray = what->srcArray;
  whole.srcPitch = what->srcPitch;
  whole.dstXInBytes = what->dstXInBytes;
  whole.dstY = what->dstY;
  whole.dstMemoryType = what->dstMemoryType;
  whole.dstHost = what->dstHost;
  whole.dstDevice = what->dstDevice;
  whole.dstArray = what->dstArray;
  whole.dstPitch = what->dstPitch;
  whole.WidthInBytes = what->WidthInBytes;
  whole.Height = what->Height;
  whole.Depth = 1;
  return copy_3d(function, &whole, stream);
}

// Bytes of an array's row from `offset` on; the other side is memory.
CUresult copy_row(const char* function, int type, const void* host, CUdeviceptr device, CUarray array,
                  std::size_t offset, std::size_t bytes, bool to_array, CUstream stream = nullptr) {
  CUDA_MEMCPY2D what{};
  what.srcMemoryType = to_array ? type : CU_MEMORYTYPE_ARRAY;
  what.dstMemoryType = to_array ? CU_MEMORYTYPE_ARRAY : type;
  what.srcHost = host;
  what.dstHost = const_cast<void*>(host);
  what.srcDevice = what.dstDevice = device;
  what.srcArray = what.dstArray = array;
  (to_array ? what.dstXInBytes : what.srcXInBytes) = offset;
  what.WidthInBytes = bytes;
  what.Height = 1;
  return copy_2d(function, &what, stream);
}

template <class T>
CUresult fill_now(State& all, CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    const CUdeviceptr at = to + row * pitch;
    if (width == 0) continue;
    const std::size_t bytes = width * sizeof(T);
    if (!is_device_range(all, at, bytes)) return refuse_range(all, "memset", bytes, "destination", at);
    auto* const own = reinterpret_cast<std::uint8_t*>(behind_mirror(all, at));
    for (std::size_t i = 0; i < width; ++i) std::memcpy(own + i * sizeof(T), &value, sizeof(T));
    host_wrote(at, bytes);
  }
  return CUDA_SUCCESS;
}

template <class T>
CUresult fill(const char* function, CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t height,
              CUstream stream = nullptr) {
  return with_context(function, [&](State& all, Context& context) {
    Stream* const there = all.stream(stream, context);
    if (there == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (to % sizeof(T) != 0 || (height > 1 && pitch < width * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
    NodeKind kind{.type = CU_GRAPH_NODE_TYPE_MEMSET};
    if (height > 1) {
      kind.is_flat = false;
      kind.width_bytes = width * sizeof(T);
      kind.height = height;
    }
    return perform(all, context, *there, stream, kind, [=](State& later, Context& now, CUstream replay) {
      return take_time(later, now, replay, fill_now(later, to, pitch, value, width, height),
                       {.dram_bytes = static_cast<double>(width * height * sizeof(T))});
    });
  });
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

VGPU_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_1d("cuMemcpy", Side::either, to, Side::either, from, bytes);
}
VGPU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_1d("cuMemcpyAsync", Side::either, to, Side::either, from, bytes, stream);
}
VGPU_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
  return copy_1d("cuMemcpyHtoD", Side::device, to, Side::host, number(from), bytes);
}
VGPU_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return copy_1d("cuMemcpyHtoDAsync", Side::device, to, Side::host, number(from), bytes, stream);
}
VGPU_EXPORT CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
  return copy_1d("cuMemcpyDtoH", Side::host, number(to), Side::device, from, bytes);
}
VGPU_EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_1d("cuMemcpyDtoHAsync", Side::host, number(to), Side::device, from, bytes, stream);
}
VGPU_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return copy_1d("cuMemcpyDtoD", Side::device, to, Side::device, from, bytes);
}
VGPU_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return copy_1d("cuMemcpyDtoDAsync", Side::device, to, Side::device, from, bytes, stream);
}
VGPU_EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* what) {
  return copy_2d("cuMemcpy2D", what);
}
VGPU_EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* what) {
  return copy_2d("cuMemcpy2DUnaligned", what);
}
VGPU_EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* what, CUstream stream) {
  return copy_2d("cuMemcpy2DAsync", what, stream);
}
VGPU_EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* what) {
  return copy_3d("cuMemcpy3D", what);
}
VGPU_EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* what, CUstream stream) {
  return copy_3d("cuMemcpy3DAsync", what, stream);
}

VGPU_EXPORT CUresult cuMemcpyHtoA_v2(CUarray to, std::size_t offset, const void* from, std::size_t bytes) {
  return copy_row("cuMemcpyHtoA", CU_MEMORYTYPE_HOST, from, 0, to, offset, bytes, true);
}
VGPU_EXPORT CUresult cuMemcpyAtoH_v2(void* to, CUarray from, std::size_t offset, std::size_t bytes) {
  return copy_row("cuMemcpyAtoH", CU_MEMORYTYPE_HOST, to, 0, from, offset, bytes, false);
}
VGPU_EXPORT CUresult cuMemcpyDtoA_v2(CUarray to, std::size_t offset, CUdeviceptr from, std::size_t bytes) {
  return copy_row("cuMemcpyDtoA", CU_MEMORYTYPE_DEVICE, nullptr, from, to, offset, bytes, true);
}
VGPU_EXPORT CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, std::size_t offset, std::size_t bytes) {
  return copy_row("cuMemcpyAtoD", CU_MEMORYTYPE_DEVICE, nullptr, to, from, offset, bytes, false);
}

VGPU_EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) {
  return fill("cuMemsetD8", to, 0, value, count, 1);
}
VGPU_EXPORT CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count) {
  return fill("cuMemsetD16", to, 0, value, count, 1);
}
VGPU_EXPORT CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
  return fill("cuMemsetD32", to, 0, value, count, 1);
}
VGPU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return fill("cuMemsetD8Async", to, 0, value, count, 1, stream);
}
VGPU_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
  return fill("cuMemsetD16Async", to, 0, value, count, 1, stream);
}
VGPU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  return fill("cuMemsetD32Async", to, 0, value, count, 1, stream);
}
VGPU_EXPORT CUresult cuMemsetD2D8_v2(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                                     std::size_t height) {
  return fill("cuMemsetD2D8", to, pitch, value, width, height);
}
VGPU_EXPORT CUresult cuMemsetD2D16_v2(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
                                      std::size_t height) {
  return fill("cuMemsetD2D16", to, pitch, value, width, height);
}
VGPU_EXPORT CUresult cuMemsetD2D32_v2(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                                      std::size_t height) {
  return fill("cuMemsetD2D32", to, pitch, value, width, height);
}
VGPU_EXPORT CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                                       std::size_t height, CUstream stream) {
  return fill("cuMemsetD2D8Async", to, pitch, value, width, height, stream);
}
VGPU_EXPORT CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
                                        std::size_t height, CUstream stream) {
  return fill("cuMemsetD2D16Async", to, pitch, value, width, height, stream);
}
VGPU_EXPORT CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width,
                                        std::size_t height, CUstream stream) {
  return fill("cuMemsetD2D32Async", to, pitch, value, width, height, stream);
}

// Placement is all the same here.
VGPU_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, std::size_t bytes, CUmemLocation /*where*/,
                                           unsigned /*flags*/, CUstream /*stream*/) {
  return with_context("cuMemPrefetchAsync", [&](State& all, Context&) {
    return is_device_range(all, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
VGPU_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, std::size_t bytes, int /*advice*/, CUmemLocation /*where*/) {
  return with_context("cuMemAdvise", [&](State& all, Context&) {
    return is_device_range(all, address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

VGPU_PER_THREAD(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemcpy, cuMemcpy_ptds);
VGPU_PER_THREAD(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds);
VGPU_PER_THREAD(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds);
VGPU_PER_THREAD(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds);
VGPU_PER_THREAD(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemcpyAsync, cuMemcpyAsync_ptsz);
VGPU_PER_THREAD(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds);
VGPU_PER_THREAD(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds);
VGPU_PER_THREAD(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds);
VGPU_PER_THREAD(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz);
VGPU_PER_THREAD(cuMemsetD16_v2, cuMemsetD16_v2_ptds);
VGPU_PER_THREAD(cuMemsetD16Async, cuMemsetD16Async_ptsz);
VGPU_PER_THREAD(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds);
VGPU_PER_THREAD(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz);
VGPU_PER_THREAD(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds);
VGPU_PER_THREAD(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz);
VGPU_PER_THREAD(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds);
VGPU_PER_THREAD(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz);
VGPU_PER_THREAD(cuMemsetD32_v2, cuMemsetD32_v2_ptds);
VGPU_PER_THREAD(cuMemsetD32Async, cuMemsetD32Async_ptsz);
VGPU_PER_THREAD(cuMemsetD8_v2, cuMemsetD8_v2_ptds);
VGPU_PER_THREAD(cuMemsetD8Async, cuMemsetD8Async_ptsz);
