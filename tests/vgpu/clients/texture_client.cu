// Textures and surfaces as samples use them, against a reference on the CPU: linear memory, pitched memory and arrays
// of one to three dimensions; points and filters, every address mode, normalised coordinates, integers read as floats;
// surfaces written, read and copied. Exit 0 when all hold.
#include <cmath>
#include <cstring>
#include <vector>

#include "holds.cuh"

namespace {

constexpr int width = 13, height = 7, depth = 5;
constexpr int samples = 400;

}  // namespace

template <class T>
__global__ void fetch_linear(cudaTextureObject_t texture, T* out, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = tex1Dfetch<T>(texture, i - 2);
}
template <class T>
__global__ void fetch_2d(cudaTextureObject_t texture, T* out, const float* x, const float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < samples) out[i] = tex2D<T>(texture, x[i], y[i]);
}
__global__ void fetch_1d(cudaTextureObject_t texture, float* out, const float* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < samples) out[i] = tex1D<float>(texture, x[i]);
}
__global__ void fetch_3d(cudaTextureObject_t texture, float* out, const float* x, const float* y, const float* z) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < samples) out[i] = tex3D<float>(texture, x[i], y[i], z[i]);
}
__global__ void transpose_surface(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int* outside) {
  const int x = threadIdx.x, y = threadIdx.y;
  uchar4 texel;
  surf2Dread(&texel, from, x * int(sizeof(uchar4)), y);
  surf2Dwrite(texel, to, y * int(sizeof(uchar4)), x);
  if (x == 0 && y == 0) {
    uchar4 none = make_uchar4(9, 9, 9, 9);
    surf2Dread(&none, from, -4, 0, cudaBoundaryModeZero);
    *outside = none.x + none.y + none.z + none.w;
    surf2Dwrite(none, from, 4 * width, 0, cudaBoundaryModeZero);  // nothing is written
  }
}
__global__ void fill_volume(cudaSurfaceObject_t to) {
  surf3Dwrite(float(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z), to, threadIdx.x * 4, threadIdx.y, threadIdx.z);
}

namespace {

template <class T>
T* on_device(const std::vector<T>& values) {
  T* at = nullptr;
  WORKS(cudaMalloc(&at, values.size() * sizeof(T)));
  WORKS(cudaMemcpy(at, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return at;
}
template <class T>
std::vector<T> back(const T* at, std::size_t count) {
  std::vector<T> values(count);
  WORKS(cudaMemcpy(values.data(), at, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

std::vector<float> coordinates(int extent, bool normalised, float shift) {
  std::vector<float> made;
  for (int i = 0; i < samples; ++i) {
    const float texel = float(i) * 0.0625f * float(extent) / 4 - float(extent) * 2 + shift;  // beyond both ends
    made.push_back(normalised ? texel / float(extent) : texel);
  }
  return made;
}

// The Programming Guide's words for one dimension: which texel an index means. -1: the border.
int texel_of(int index, int extent, cudaTextureAddressMode mode, bool normalised) {
  if (!normalised && mode != cudaAddressModeBorder) mode = cudaAddressModeClamp;
  if (mode == cudaAddressModeBorder) return index < 0 || index >= extent ? -1 : index;
  if (mode == cudaAddressModeClamp) return index < 0 ? 0 : index >= extent ? extent - 1 : index;
  const int period = mode == cudaAddressModeWrap ? extent : 2 * extent;
  int within = index % period;
  if (within < 0) within += period;
  return within < extent ? within : period - 1 - within;
}

// Table lookup in up to three dimensions, by recursion over them.
struct Reference {
  std::vector<float> texels;
  int extent[3];
  cudaTextureAddressMode mode;
  bool normalised, filtered;
  float border;

  float at(int dimension, int offset, const float* where) const {
    int stride = 1;
    for (int i = 0; i < dimension; ++i) stride *= extent[i];
    const float scaled = normalised ? where[dimension] * float(extent[dimension]) : where[dimension];
    const auto take = [&](int index) {
      const int texel = texel_of(index, extent[dimension], mode, normalised);
      if (texel < 0) return border;
      return dimension == 0 ? texels[offset + texel] : at(dimension - 1, offset + texel * stride, where);
    };
    if (!filtered) return take(int(std::floor(scaled)));
    const float position = scaled - 0.5f;
    const int first = int(std::floor(position));
    const float weight = std::round((position - float(first)) * 256) / 256;
    return (1 - weight) * take(first) + weight * take(first + 1);
  }
};

// Products of weights and texels are rounded in another order: a few units of the largest texel.
bool is_close(float a, float b) {
  return std::fabs(a - b) <= 8 * 0x1p-24f * 400;
}

cudaTextureObject_t texture_of(const cudaResourceDesc& resource, cudaTextureAddressMode mode, bool filtered,
                               bool normalised, cudaTextureReadMode read = cudaReadModeElementType, float border = 0) {
  cudaTextureDesc how{};
  for (auto& one : how.addressMode) one = mode;
  how.filterMode = filtered ? cudaFilterModeLinear : cudaFilterModePoint;
  how.readMode = read;
  how.normalizedCoords = normalised;
  how.borderColor[0] = border;
  cudaTextureObject_t texture = 0;
  WORKS(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  return texture;
}

void linear_memory() {
  std::vector<float> values;
  for (int i = 0; i < width; ++i) values.push_back(float(i) + 0.5f);
  float* const at = on_device(values);
  float* const out = on_device(std::vector<float>(width + 4));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = at;
  resource.res.linear.desc = cudaCreateChannelDesc<float>();
  resource.res.linear.sizeInBytes = width * sizeof(float);
  const auto texture = texture_of(resource, cudaAddressModeClamp, false, false);
  fetch_linear<<<1, 32>>>(texture, out, width + 4);
  const auto got = back(out, width + 4);
  for (int i = 0; i < width + 4; ++i) HOLDS(got[i] == (i < 2 || i >= width + 2 ? 0 : values[i - 2]));
  WORKS(cudaDestroyTextureObject(texture));
  // Bytes as floats of [0, 1], four of them at once.
  uchar4* const pixels = on_device(std::vector<uchar4>{{0, 51, 255, 102}, {255, 0, 0, 0}});
  float4* const colours = on_device(std::vector<float4>(4));
  resource.res.linear.devPtr = pixels;
  resource.res.linear.desc = cudaCreateChannelDesc<uchar4>();
  resource.res.linear.sizeInBytes = 2 * sizeof(uchar4);
  const auto coloured = texture_of(resource, cudaAddressModeClamp, false, false, cudaReadModeNormalizedFloat);
  fetch_linear<<<1, 4>>>(coloured, colours, 4);
  const auto seen = back(colours, 4);
  HOLDS(seen[2].x == 0 && seen[2].y == 51 / 255.0f && seen[2].z == 1 && seen[2].w == 102 / 255.0f && seen[3].x == 1);
  WORKS(cudaDestroyTextureObject(coloured));
  short2* const pairs = on_device(std::vector<short2>{{-32768, 5}, {7, -7}});
  short2* const read = on_device(std::vector<short2>(4));
  resource.res.linear.devPtr = pairs;
  resource.res.linear.desc = cudaCreateChannelDesc<short2>();
  resource.res.linear.sizeInBytes = 2 * sizeof(short2);
  const auto signs = texture_of(resource, cudaAddressModeClamp, false, false);
  fetch_linear<<<1, 4>>>(signs, read, 4);
  const auto both = back(read, 4);
  HOLDS(both[0].x == 0 && both[2].x == -32768 && both[2].y == 5 && both[3].y == -7);
  WORKS(cudaDestroyTextureObject(signs));
  for (void* one : {(void*)at, (void*)out, (void*)pixels, (void*)colours, (void*)pairs, (void*)read})
    WORKS(cudaFree(one));
}

void planes() {
  std::vector<float> values;
  for (int i = 0; i < width * height; ++i) values.push_back(float(i * 37 % 101));
  cudaArray_t array = nullptr;
  const auto channels = cudaCreateChannelDesc<float>();
  WORKS(cudaMallocArray(&array, &channels, width, height));
  WORKS(cudaMemcpy2DToArray(array, 0, 0, values.data(), width * sizeof(float), width * sizeof(float), height,
                            cudaMemcpyHostToDevice));
  cudaResourceDesc of_array{}, of_memory{};
  of_array.resType = cudaResourceTypeArray;
  of_array.res.array.array = array;
  float* pitched = nullptr;
  std::size_t pitch = 0;
  WORKS(cudaMallocPitch(&pitched, &pitch, width * sizeof(float), height));
  WORKS(cudaMemcpy2D(pitched, pitch, values.data(), width * sizeof(float), width * sizeof(float), height,
                     cudaMemcpyHostToDevice));
  of_memory.resType = cudaResourceTypePitch2D;
  of_memory.res.pitch2D.devPtr = pitched;
  of_memory.res.pitch2D.desc = channels;
  of_memory.res.pitch2D.width = width;
  of_memory.res.pitch2D.height = height;
  of_memory.res.pitch2D.pitchInBytes = pitch;
  float* const out = on_device(std::vector<float>(samples));
  for (const auto& resource : {of_array, of_memory})
    for (const auto mode : {cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder})
      for (const bool filtered : {false, true})
        for (const bool normalised : {false, true}) {
          const float border = mode == cudaAddressModeBorder ? 17 : 0;
          const auto texture = texture_of(resource, mode, filtered, normalised, cudaReadModeElementType, border);
          const auto x = coordinates(width, normalised, 0.2f), y = coordinates(height, normalised, 0.7f);
          float *const at_x = on_device(x), *const at_y = on_device(y);
          fetch_2d<<<(samples + 63) / 64, 64>>>(texture, out, at_x, at_y);
          const auto got = back(out, samples);
          const Reference right{values, {width, height, 1}, mode, normalised, filtered, border};
          for (int i = 0; i < samples; ++i) {
            const float where[] = {x[i], y[i]};
            HOLDS(is_close(got[i], right.at(1, 0, where)));
          }
          WORKS(cudaDestroyTextureObject(texture));
          WORKS(cudaFree(at_x));
          WORKS(cudaFree(at_y));
        }
  std::vector<float> again(values.size());
  WORKS(cudaMemcpy2DFromArray(again.data(), width * sizeof(float), array, 0, 0, width * sizeof(float), height,
                              cudaMemcpyDeviceToHost));
  HOLDS(again == values);
  HOLDS(cudaMemcpy2DToArray(array, 4, 0, values.data(), width * 4, width * 4, 1, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  (void)cudaGetLastError();
  WORKS(cudaFree(out));
  WORKS(cudaFree(pitched));
  WORKS(cudaFreeArray(array));
}

void lines_and_volumes() {
  std::vector<float> values;
  for (int i = 0; i < width * height * depth; ++i) values.push_back(float(i * 53 % 211));
  const auto channels = cudaCreateChannelDesc<float>();
  cudaArray_t line = nullptr, volume = nullptr;
  WORKS(cudaMallocArray(&line, &channels, width));
  WORKS(cudaMemcpy2DToArray(line, 0, 0, values.data(), width * 4, width * 4, 1, cudaMemcpyHostToDevice));
  WORKS(cudaMalloc3DArray(&volume, &channels, make_cudaExtent(width, height, depth)));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), width * sizeof(float), width, height);
  copy.dstArray = volume;
  copy.extent = make_cudaExtent(width, height, depth);
  copy.kind = cudaMemcpyHostToDevice;
  WORKS(cudaMemcpy3D(&copy));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  float* const out = on_device(std::vector<float>(samples));
  const auto x = coordinates(width, true, 0.2f), y = coordinates(height, true, 0.7f),
             z = coordinates(depth, true, 0.4f);
  float *const at_x = on_device(x), *const at_y = on_device(y), *const at_z = on_device(z);
  for (const auto mode : {cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder}) {
    resource.res.array.array = line;
    const auto of_line = texture_of(resource, mode, true, true);
    fetch_1d<<<(samples + 63) / 64, 64>>>(of_line, out, at_x);
    const auto on_line = back(out, samples);
    resource.res.array.array = volume;
    const auto of_volume = texture_of(resource, mode, true, true);
    fetch_3d<<<(samples + 63) / 64, 64>>>(of_volume, out, at_x, at_y, at_z);
    const auto in_volume = back(out, samples);
    const Reference right{values, {width, height, depth}, mode, true, true, 0};
    for (int i = 0; i < samples; ++i) {
      const float where[] = {x[i], y[i], z[i]};
      HOLDS(is_close(on_line[i], right.at(0, 0, where)));
      HOLDS(is_close(in_volume[i], right.at(2, 0, where)));
    }
    WORKS(cudaDestroyTextureObject(of_line));
    WORKS(cudaDestroyTextureObject(of_volume));
  }
  for (float* one : {out, at_x, at_y, at_z}) WORKS(cudaFree(one));
  WORKS(cudaFreeArray(line));
  WORKS(cudaFreeArray(volume));
}

void surfaces() {
  std::vector<uchar4> values;
  for (int i = 0; i < width * height; ++i) values.push_back(make_uchar4(i, 255 - i, i * 3, 1));
  const auto channels = cudaCreateChannelDesc<uchar4>();
  cudaArray_t from = nullptr, to = nullptr, volume = nullptr;
  WORKS(cudaMallocArray(&from, &channels, width, height, cudaArraySurfaceLoadStore));
  WORKS(cudaMallocArray(&to, &channels, height, width, cudaArraySurfaceLoadStore));
  WORKS(cudaMemcpy2DToArray(from, 0, 0, values.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeArray;
  cudaSurfaceObject_t reads = 0, writes = 0, fills = 0;
  resource.res.array.array = from;
  WORKS(cudaCreateSurfaceObject(&reads, &resource));
  resource.res.array.array = to;
  WORKS(cudaCreateSurfaceObject(&writes, &resource));
  int* const outside = on_device(std::vector<int>{-1});
  transpose_surface<<<1, dim3(width, height)>>>(reads, writes, outside);
  HOLDS(back(outside, 1)[0] == 0);
  std::vector<uchar4> turned(values.size());
  WORKS(cudaMemcpy2DFromArray(turned.data(), height * 4, to, 0, 0, height * 4, width, cudaMemcpyDeviceToHost));
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      HOLDS(std::memcmp(&turned[x * height + y], &values[y * width + x], sizeof(uchar4)) == 0);
  const auto floats = cudaCreateChannelDesc<float>();
  WORKS(cudaMalloc3DArray(&volume, &floats, make_cudaExtent(4, 3, 2), cudaArraySurfaceLoadStore));
  resource.res.array.array = volume;
  WORKS(cudaCreateSurfaceObject(&fills, &resource));
  fill_volume<<<1, dim3(4, 3, 2)>>>(fills);
  std::vector<float> filled(24);
  cudaMemcpy3DParms copy{};
  copy.srcArray = volume;
  copy.dstPtr = make_cudaPitchedPtr(filled.data(), 16, 4, 3);
  copy.extent = make_cudaExtent(4, 3, 2);
  copy.kind = cudaMemcpyDeviceToHost;
  WORKS(cudaMemcpy3D(&copy));
  HOLDS(filled[0] == 0 && filled[3] == 3 && filled[4] == 10 && filled[23] == 123);
  for (const auto surface : {reads, writes, fills}) WORKS(cudaDestroySurfaceObject(surface));
  for (const auto array : {from, to, volume}) WORKS(cudaFreeArray(array));
  WORKS(cudaFree(outside));
}

void boxes() {
  cudaPitchedPtr box{};
  WORKS(cudaMalloc3D(&box, make_cudaExtent(20, 3, 2)));
  HOLDS(box.pitch >= 20 && box.xsize == 20 && box.ysize == 3);
  std::vector<char> values(120), again(120);
  for (int i = 0; i < 120; ++i) values[i] = char(i);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(values.data(), 20, 20, 3);
  copy.dstPtr = box;
  copy.extent = make_cudaExtent(20, 3, 2);
  copy.kind = cudaMemcpyHostToDevice;
  WORKS(cudaMemcpy3D(&copy));
  copy.srcPtr = box;
  copy.dstPtr = make_cudaPitchedPtr(again.data(), 20, 20, 3);
  copy.kind = cudaMemcpyDeviceToHost;
  WORKS(cudaMemcpy3D(&copy));
  HOLDS(again == values);
  WORKS(cudaFree(box.ptr));
}

}  // namespace

int main() {
  linear_memory();
  planes();
  lines_and_volumes();
  surfaces();
  boxes();
  return 0;
}
