// A Walsh-Hadamard transform, butterflies in shared memory and then across blocks; twice gives the input again.
#include "sample.cuh"

constexpr int length = 2'048, part = 512;

__global__ void within(int* data) {
  __shared__ int row[part];
  for (int i = threadIdx.x; i < part; i += blockDim.x) row[i] = data[blockIdx.x * part + i];
  for (int stride = 1; stride < part; stride *= 2) {
    __syncthreads();
    const int low = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), a = row[low], b = row[low + stride];
    row[low] = a + b;
    row[low + stride] = a - b;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < part; i += blockDim.x) data[blockIdx.x * part + i] = row[i];
}

__global__ void across(int* data, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, low = 2 * i - (i & (stride - 1));
  const int a = data[low], b = data[low + stride];
  data[low] = a + b;
  data[low + stride] = a - b;
}

int main() {
  const auto in = random_values<int>(length, -50, 50);
  DeviceArray<int> data(in);
  for (int turn = 0; turn < 2; ++turn) {
    within<<<length / part, part / 2>>>(data);
    for (int stride = part; stride < length; stride *= 2) across<<<length / 2 / 128, 128>>>(data, stride);
    finish();
    const auto ours = data.host();
    for (int i = 0; i < length; i += 37) {  // rows of the matrix by its definition
      long long wanted = 0;
      for (int j = 0; j < length; ++j) wanted += __builtin_parity(i & j) ? -in[j] : in[j];
      HOLDS(ours[i] == (turn == 0 ? wanted : static_cast<long long>(length) * in[i]));
    }
  }
}
