// A transpose through a padded tile of shared memory; neither side is a multiple of the tile.
#include "sample.cuh"

constexpr int tile = 32, rows_at_once = 8;

__global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float square[tile][tile + 1];
  const int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
  for (int j = 0; j < tile; j += rows_at_once)
    if (x < columns && y + j < rows) square[threadIdx.y + j][threadIdx.x] = in[(y + j) * columns + x];
  __syncthreads();
  const int to_x = blockIdx.y * tile + threadIdx.x, to_y = blockIdx.x * tile + threadIdx.y;
  for (int j = 0; j < tile; j += rows_at_once)
    if (to_x < rows && to_y + j < columns) out[(to_y + j) * rows + to_x] = square[threadIdx.x][threadIdx.y + j];
}

int main() {
  constexpr int rows = 75, columns = 130;
  const auto in = random_values<float>(rows * columns, -1, 1);
  DeviceArray<float> device(in), out(rows * columns);
  transpose<<<dim3(blocks_for(columns, tile), blocks_for(rows, tile)), dim3(tile, rows_at_once)>>>(device, out, rows,
                                                                                                   columns);
  finish();
  const auto ours = out.host();
  for (int y = 0; y < rows; ++y)
    for (int x = 0; x < columns; ++x) HOLDS(ours[x * rows + y] == in[y * columns + x]);
}
