// C = A B by tiles in shared memory. Small integers: every order of summation gives the same float.
#include "sample.cuh"

constexpr int tile = 16;

__global__ void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float part_a[tile][tile], part_b[tile][tile];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float total = 0;
  for (int first = 0; first < k; first += tile) {
    part_a[threadIdx.y][threadIdx.x] = row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0;
    part_b[threadIdx.y][threadIdx.x] =
        column < n && first + threadIdx.y < k ? b[(first + threadIdx.y) * n + column] : 0;
    __syncthreads();
    for (int j = 0; j < tile; ++j) total += part_a[threadIdx.y][j] * part_b[j][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = total;
}

int main() {
  constexpr int m = 50, n = 37, k = 61;
  auto a = random_values<float>(m * k, -8, 8, 1), b = random_values<float>(k * n, -8, 8, 2);
  for (float& x : a) x = std::round(x);
  for (float& x : b) x = std::round(x);
  DeviceArray<float> device_a(a), device_b(b), device_c(m * n);
  multiply<<<dim3(blocks_for(n, tile), blocks_for(m, tile)), dim3(tile, tile)>>>(device_a, device_b, device_c, m, n, k);
  finish();
  const auto c = device_c.host();
  for (int y = 0; y < m; ++y)
    for (int x = 0; x < n; ++x) {
      float wanted = 0;
      for (int j = 0; j < k; ++j) wanted += a[y * k + j] * b[j * n + x];
      HOLDS(c[y * n + x] == wanted);
    }
}
