// A seven-point stencil over a box, planes rolling through registers, two steps by swapping arrays.
#include "sample.cuh"

constexpr int nx = 34, ny = 17, nz = 12;

__host__ __device__ inline int at(int x, int y, int z) {
  return (z * ny + y) * nx + x;
}

__global__ void step(const int* in, int* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= nx || y >= ny) return;
  const bool is_edge = x == 0 || y == 0 || x == nx - 1 || y == ny - 1;
  int below = 0, here = in[at(x, y, 0)];
  for (int z = 0; z < nz; ++z) {
    const int above = z + 1 < nz ? in[at(x, y, z + 1)] : 0;
    out[at(x, y, z)] = is_edge || z == 0 || z == nz - 1 ? here
                                                        : below + above + in[at(x - 1, y, z)] + in[at(x + 1, y, z)] +
                                                              in[at(x, y - 1, z)] + in[at(x, y + 1, z)] - 6 * here;
    below = here;
    here = above;
  }
}

int main() {
  auto wanted = random_values<int>(nx * ny * nz, -9, 9);
  DeviceArray<int> first(wanted), second(wanted.size());
  const dim3 block(16, 8), grid(blocks_for(nx, 16), blocks_for(ny, 8));
  step<<<grid, block>>>(first, second);
  step<<<grid, block>>>(second, first);
  finish();
  for (int turn = 0; turn < 2; ++turn) {
    const auto in = wanted;
    for (int z = 1; z < nz - 1; ++z)
      for (int y = 1; y < ny - 1; ++y)
        for (int x = 1; x < nx - 1; ++x)
          wanted[at(x, y, z)] = in[at(x, y, z - 1)] + in[at(x, y, z + 1)] + in[at(x - 1, y, z)] + in[at(x + 1, y, z)] +
                                in[at(x, y - 1, z)] + in[at(x, y + 1, z)] - 6 * in[at(x, y, z)];
  }
  HOLDS(first.host() == wanted);
}
