// Shared memory of a size known at the launch: two types in one piece, and more than 48 KB on request.
#include "sample.cuh"

__global__ void sort_by_rank(const float* in, float* out, int count) {
  extern __shared__ float values[];
  int* ranks = reinterpret_cast<int*>(values + count);
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] = in[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    int rank = 0;
    for (int j = 0; j < count; ++j) rank += values[j] < values[i] || (values[j] == values[i] && j < i);
    ranks[rank] = i;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = values[ranks[i]];
}

__global__ void far_end(int words, int* out) {
  extern __shared__ int large[];
  large[words - 1 - threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = large[words - blockDim.x + threadIdx.x];
}

int main() {
  constexpr int count = 201, bytes = 96 << 10;
  auto in = random_values<float>(count, 0, 1);
  DeviceArray<float> device(in), out(count);
  sort_by_rank<<<1, 128, count*(sizeof(float) + sizeof(int))>>>(device, out, count);
  finish();
  std::sort(in.begin(), in.end());
  HOLDS(out.host() == in);
  DeviceArray<int> end(64);
  far_end<<<1, 64, bytes>>>(bytes / 4, end);
  HOLDS(cudaGetLastError() == cudaErrorInvalidValue);  // nobody asked for it
  WORKS(cudaFuncSetAttribute(far_end, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  far_end<<<1, 64, bytes>>>(bytes / 4, end);
  finish();
  const auto words = end.host();
  for (int i = 0; i < 64; ++i) HOLDS(words[i] == 63 - i);
}
