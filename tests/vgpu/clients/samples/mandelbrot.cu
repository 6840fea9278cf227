// How long points of the plane stay near: loops that end at different times in the lanes of a warp.
#include "sample.cuh"

__host__ __device__ inline int steps(int x, int y, int width, int height) {
  // In integers: host and device must not differ in one rounding.
  const long long re = (3LL * x * 4096) / width - 2 * 4096, im = (2LL * y * 4096) / height - 4096;
  long long a = 0, b = 0;
  int step = 0;
  for (; step < 60 && a * a + b * b < 4LL * 4096 * 4096; ++step) {
    const long long next = (a * a - b * b) / 4096 + re;
    b = 2 * a * b / 4096 + im;
    a = next;
  }
  return step;
}

__global__ void draw(int* out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = steps(x, y, width, height);
}

int main() {
  constexpr int width = 70, height = 40;
  DeviceArray<int> out(width * height);
  draw<<<dim3(blocks_for(width, 16), blocks_for(height, 8)), dim3(16, 8)>>>(out, width, height);
  finish();
  const auto ours = out.host();
  for (int i = 0; i < width * height; ++i) HOLDS(ours[i] == steps(i % width, i / width, width, height));
}
