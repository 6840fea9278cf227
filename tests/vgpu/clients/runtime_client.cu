// An ordinary program of the CUDA runtime API, compiled by nvcc with -cudart shared and not otherwise prepared:
// launches by triple brackets, symbols, managed memory, streams, events, graphs captured and made by hand, attributes,
// errors. Exit 0 when all hold.
#include <cooperative_groups.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "holds.cuh"

__device__ int visits;
__constant__ float factor;
__managed__ int managed_first = 5;
__managed__ int managed_second = 7;

__global__ void scale(int count, const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = factor * in[i];
    atomicAdd(&visits, 1);
  }
  if (i == 0) managed_second += managed_first;
}

__global__ void reverse(int* values) {
  extern __shared__ int mirror[];
  mirror[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = mirror[blockDim.x - 1 - threadIdx.x];
}

__global__ void everybody(int* sum, int* last) {
  atomicAdd(sum, 1);
  cooperative_groups::this_grid().sync();
  if (blockIdx.x == 0 && threadIdx.x == 0) *last = *sum;
}

template <class T>
__global__ void add_one(T* values) {
  values[threadIdx.x] += T(1);
}

namespace {

void devices() {
  int count = 0, device = -1, sms = 0;
  cudaDeviceProp facts;
  WORKS(cudaGetDeviceCount(&count));
  HOLDS(count == 1);
  WORKS(cudaGetDevice(&device));
  HOLDS(device == 0);
  WORKS(cudaGetDeviceProperties(&facts, 0));
  HOLDS(std::strstr(facts.name, "virtual") != nullptr && facts.major == 8 && facts.warpSize == 32);
  WORKS(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  HOLDS(sms == facts.multiProcessorCount && facts.maxGridSize[1] == 65535 && facts.maxThreadsDim[2] == 64);
  HOLDS(cudaSetDevice(1) == cudaErrorInvalidDevice && cudaGetLastError() == cudaErrorInvalidDevice);
  HOLDS(cudaGetLastError() == cudaSuccess);
}

void variables() {
  constexpr int count = 1000;
  const float half = 0.5F;
  std::vector<float> in(count, 3.0F), out(count);
  float *device_in = nullptr, *device_out = nullptr;
  WORKS(cudaMalloc(&device_in, count * sizeof(float)));
  WORKS(cudaMalloc(&device_out, count * sizeof(float)));
  WORKS(cudaMemcpy(device_in, in.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  WORKS(cudaMemcpyToSymbol(factor, &half, sizeof half));
  HOLDS(managed_first == 5 && managed_second == 7);
  scale<<<(count + 255) / 256, 256>>>(count, device_in, device_out);
  WORKS(cudaGetLastError());
  WORKS(cudaDeviceSynchronize());
  WORKS(cudaMemcpy(out.data(), device_out, count * sizeof(float), cudaMemcpyDefault));
  for (const float value : out) HOLDS(value == 1.5F);
  int visited = 0;
  WORKS(cudaMemcpyFromSymbol(&visited, visits, sizeof visited));
  HOLDS(visited == count && managed_second == 12);
  HOLDS(cudaMemcpyFromSymbol(&visited, visits, sizeof visited, 1) == cudaErrorInvalidValue);
  HOLDS(cudaMemcpyToSymbol(&half, &half, sizeof half) == cudaErrorInvalidSymbol);
  cudaPointerAttributes what;
  WORKS(cudaPointerGetAttributes(&what, device_in));
  HOLDS(what.type == cudaMemoryTypeDevice && what.devicePointer == device_in);
  WORKS(cudaPointerGetAttributes(&what, in.data()));
  HOLDS(what.type == cudaMemoryTypeUnregistered);
  WORKS(cudaFree(device_in));
  WORKS(cudaFree(device_out));
  WORKS(cudaFree(nullptr));
  (void)cudaGetLastError();
}

void rectangles() {
  constexpr int width = 24, height = 5;
  char from[height][32], to[height][40] = {};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) from[y][x] = static_cast<char>(y * width + x);
  void* device = nullptr;
  std::size_t pitch = 0;
  WORKS(cudaMallocPitch(&device, &pitch, width, height));
  HOLDS(pitch >= width);
  WORKS(cudaMemcpy2D(device, pitch, from, sizeof from[0], width, height, cudaMemcpyHostToDevice));
  WORKS(cudaMemset2D(static_cast<char*>(device) + pitch, pitch, 9, 2, 1));
  WORKS(cudaMemcpy2D(to, sizeof to[0], device, pitch, width, height, cudaMemcpyDeviceToHost));
  HOLDS(to[1][0] == 9 && to[1][2] == from[1][2] && to[4][23] == from[4][23] && to[0][24] == 0);
  WORKS(cudaFree(device));
}

void count_up(void* number) {
  ++*static_cast<int*>(number);
}

void streams() {
  int *values = nullptr, called = 0;
  WORKS(cudaMallocManaged(&values, 64 * sizeof(int)));
  for (int i = 0; i < 64; ++i) values[i] = i;
  cudaStream_t stream = nullptr;
  WORKS(cudaStreamCreate(&stream));
  cudaEvent_t begin = nullptr, end = nullptr;
  WORKS(cudaEventCreate(&begin));
  WORKS(cudaEventCreate(&end));
  WORKS(cudaEventRecord(begin, stream));
  reverse<<<1, 64, 64 * sizeof(int), stream>>>(values);
  WORKS(cudaLaunchHostFunc(stream, count_up, &called));
  WORKS(cudaEventRecord(end, stream));
  WORKS(cudaStreamSynchronize(stream));
  float milliseconds = -1;
  WORKS(cudaEventElapsedTime(&milliseconds, begin, end));
  HOLDS(milliseconds >= 0 && called == 1 && values[0] == 63 && values[63] == 0);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  reverse<<<1, 64, 64 * sizeof(int), stream>>>(values);
  add_one<<<1, 64, 0, stream>>>(values);
  WORKS(cudaStreamIsCapturing(stream, &status));
  HOLDS(status == cudaStreamCaptureStatusActive && values[0] == 63);
  WORKS(cudaStreamEndCapture(stream, &graph));
  std::size_t nodes = 0;
  WORKS(cudaGraphGetNodes(graph, nullptr, &nodes));
  HOLDS(nodes == 2);
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; ++i) WORKS(cudaGraphLaunch(executable, stream));
  WORKS(cudaStreamSynchronize(stream));
  HOLDS(values[0] == 3 && values[63] == 66);
  WORKS(cudaGraphExecDestroy(executable));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaEventDestroy(begin));
  WORKS(cudaEventDestroy(end));
  WORKS(cudaStreamDestroy(stream));
  WORKS(cudaFree(values));
}

// Nodes made one by one, in another order than that in which they wait for each other.
void nodes() {
  int *values = nullptr, called = 0, count = 0;
  int seen[64] = {};
  WORKS(cudaMalloc(&values, sizeof seen));
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t clears = nullptr, adds = nullptr, copies = nullptr, calls = nullptr, ends = nullptr;
  WORKS(cudaGraphCreate(&graph, 0));
  WORKS(cudaGraphAddMemcpyNode1D(&copies, graph, nullptr, 0, seen, values, sizeof seen, cudaMemcpyDeviceToHost));
  cudaMemsetParams zeros{};
  zeros.dst = values;
  zeros.value = 5;
  zeros.elementSize = 4;
  zeros.width = 64;
  zeros.height = 1;
  WORKS(cudaGraphAddMemsetNode(&clears, graph, nullptr, 0, &zeros));
  void* arguments[] = {&values};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add_one<int>);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(64);
  kernel.kernelParams = arguments;
  WORKS(cudaGraphAddKernelNode(&adds, graph, &clears, 1, &kernel));
  WORKS(cudaGraphAddDependencies(graph, &adds, &copies, nullptr, 1));
  cudaHostNodeParams call{};
  call.fn = count_up;
  call.userData = &called;
  WORKS(cudaGraphAddHostNode(&calls, graph, &copies, 1, &call));
  WORKS(cudaGraphAddEmptyNode(&ends, graph, &calls, 1));
  std::size_t all = 0;
  WORKS(cudaGraphGetNodes(graph, nullptr, &all));
  HOLDS(all == 5);
  cudaGraphExec_t executable = nullptr;
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  HOLDS(called == 0 && seen[0] == 0);
  WORKS(cudaGraphLaunch(executable, nullptr));
  WORKS(cudaDeviceSynchronize());
  for (const int one : seen) count += one == 6;
  HOLDS(called == 1 && count == 64);
  WORKS(cudaGraphLaunch(executable, nullptr));
  WORKS(cudaDeviceSynchronize());
  HOLDS(called == 2 && seen[63] == 6);
  WORKS(cudaGraphExecDestroy(executable));
  // A circle has no order.
  WORKS(cudaGraphAddDependencies(graph, &ends, &clears, nullptr, 1));
  HOLDS(cudaGraphInstantiate(&executable, graph, 0) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  cudaGraphNode_t stranger = reinterpret_cast<cudaGraphNode_t>(&all);
  HOLDS(cudaGraphAddEmptyNode(&ends, graph, &stranger, 1) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaFree(values));
}

void kernels() {
  cudaFuncAttributes attributes;
  WORKS(cudaFuncGetAttributes(&attributes, reverse));
  HOLDS(attributes.maxThreadsPerBlock == 1024 && attributes.sharedSizeBytes == 0 && attributes.numRegs > 0);
  int blocks = 0;
  WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverse, 64, 40 << 10));
  HOLDS(blocks == 2);
  WORKS(cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 80 << 10));
  int* numbers = nullptr;
  WORKS(cudaMalloc(&numbers, 2 * sizeof(int)));
  WORKS(cudaMemset(numbers, 0, 2 * sizeof(int)));
  int *sum = numbers, *last = numbers + 1;
  void* arguments[] = {&sum, &last};
  WORKS(cudaLaunchCooperativeKernel(everybody, dim3(4), dim3(32), arguments, 0, nullptr));
  int seen[2] = {};
  WORKS(cudaMemcpy(seen, numbers, sizeof seen, cudaMemcpyDeviceToHost));
  HOLDS(seen[0] == 128 && seen[1] == 128);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(2);
  WORKS(cudaLaunchKernelEx(&config, add_one<int>, numbers));
  WORKS(cudaMemcpy(seen, numbers, sizeof seen, cudaMemcpyDeviceToHost));
  HOLDS(seen[0] == 129 && seen[1] == 129);

  // A kernel by its handle, and one of a library that the program loads itself.
  const char* text = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry seven(.param .u64 out) {
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out]; cvta.to.global.u64 %rd1, %rd1; st.global.u32 [%rd1], 7; ret;
}
)";
  cudaKernel_t add = nullptr, seven = nullptr;
  cudaLibrary_t library = nullptr;
  WORKS(cudaGetKernel(&add, add_one<int>));
  void* values[] = {&numbers};
  WORKS(cudaLaunchKernel(reinterpret_cast<const void*>(add), dim3(1), dim3(2), values, 0, nullptr));
  WORKS(cudaLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  WORKS(cudaLibraryGetKernel(&seven, library, "seven"));
  WORKS(cudaLaunchKernel(reinterpret_cast<const void*>(seven), dim3(1), dim3(1), values, 0, nullptr));
  WORKS(cudaMemcpy(seen, numbers, sizeof seen, cudaMemcpyDeviceToHost));
  HOLDS(seen[0] == 7 && seen[1] == 130);
  WORKS(cudaLibraryUnload(library));
  WORKS(cudaFree(numbers));
}

void errors() {
  reverse<<<1, 2048>>>(nullptr);
  HOLDS(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  HOLDS(std::strcmp(cudaGetErrorName(cudaGetLastError()), "cudaErrorInvalidConfiguration") == 0);
  // CUDA's own sentences, for which people search.
  constexpr struct {
    cudaError_t error;
    const char* words;
  } sentences[] = {{cudaSuccess, "no error"},
                   {cudaErrorInvalidValue, "invalid argument"},
                   {cudaErrorMemoryAllocation, "out of memory"},
                   {cudaErrorInvalidConfiguration, "invalid configuration argument"},
                   {cudaErrorInvalidSymbol, "invalid device symbol"},
                   {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
                   {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
                   {cudaErrorInvalidDeviceFunction, "invalid device function"},
                   {cudaErrorNoDevice, "no CUDA-capable device is detected"},
                   {cudaErrorInvalidDevice, "invalid device ordinal"},
                   {cudaErrorNoKernelImageForDevice, "no kernel image is available for execution on the device"},
                   {cudaErrorInvalidPtx, "a PTX JIT compilation failed"},
                   {cudaErrorInvalidResourceHandle, "invalid resource handle"},
                   {cudaErrorNotReady, "device not ready"},
                   {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
                   {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
                   {cudaErrorAssert, "device-side assert triggered"},
                   {cudaErrorMisalignedAddress, "misaligned address"},
                   {cudaErrorLaunchFailure, "unspecified launch failure"},
                   {cudaErrorNotSupported, "operation not supported"},
                   {cudaErrorUnknown, "unknown error"},
                   {cudaErrorProfilerAlreadyStarted, "profiler already started"}};
  for (const auto& one : sentences) HOLDS(std::strcmp(cudaGetErrorString(one.error), one.words) == 0);
  HOLDS(cudaLaunchKernel(reinterpret_cast<const void*>(&errors), dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  (void)cudaGetLastError();
  // There, and answers that it is not: arrays with mip levels.
  cudaMipmappedArray_t levels = nullptr;
  HOLDS(cudaMallocMipmappedArray(&levels, nullptr, make_cudaExtent(1, 1, 1), 1) == cudaErrorNotSupported);
}

}  // namespace

int main() {
  devices();
  variables();
  rectangles();
  streams();
  nodes();
  kernels();
  errors();
  int version = 0;
  WORKS(cudaRuntimeGetVersion(&version));
  std::printf("runtime %d: all hold\n", version);
  return 0;
}
