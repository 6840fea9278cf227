// n x n in tiles of 16.
extern "C" __global__ void matmul(const float* in, float* out, unsigned* work, int n) {
  __shared__ float a[16][16], b[16][17];
  const int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    a[threadIdx.y][threadIdx.x] = in[row * n + k + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = in[(k + threadIdx.y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
    __syncthreads();
  }
  out[row * n + column] = sum;
}
