// 32 x 32 through a padded tile: rows in, columns out. n is the side of the matrix.
extern "C" __global__ void transpose(const float* in, float* out, unsigned* work, int n) {
  __shared__ float tile[32][33];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int r = threadIdx.y; r < 32; r += 8) tile[r][threadIdx.x] = in[(y + r) * n + x];
  __syncthreads();
  const int tx = blockIdx.y * 32 + threadIdx.x, ty = blockIdx.x * 32;
  for (int r = threadIdx.y; r < 32; r += 8) out[(ty + r) * n + tx] = tile[threadIdx.x][r];
}
