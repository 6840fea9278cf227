// A separable convolution whose filter lies in constant memory, rows and then columns.
#include "sample.cuh"

constexpr int radius = 4;
__constant__ float filter[2 * radius + 1];

__global__ void convolve(const float* in, float* out, int width, int height, bool is_column) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int i = -radius; i <= radius; ++i) {
    const int at_x = is_column ? x : x + i, at_y = is_column ? y + i : y;
    if (at_x >= 0 && at_x < width && at_y >= 0 && at_y < height) sum += filter[i + radius] * in[at_y * width + at_x];
  }
  out[y * width + x] = sum;
}

int main() {
  constexpr int width = 70, height = 45;
  const auto image = random_values<float>(width * height, 0, 1);
  std::vector<float> taps(2 * radius + 1);
  for (int i = -radius; i <= radius; ++i) taps[i + radius] = 1.0F / static_cast<float>(1 + i * i);
  WORKS(cudaMemcpyToSymbol(filter, taps.data(), taps.size() * sizeof(float)));
  DeviceArray<float> in(image), middle(image.size()), out(image.size());
  const dim3 block(32, 4), grid(blocks_for(width, 32), blocks_for(height, 4));
  convolve<<<grid, block>>>(in, middle, width, height, false);
  convolve<<<grid, block>>>(middle, out, width, height, true);
  finish();
  const auto ours = out.host();
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      double wanted = 0;
      for (int j = -radius; j <= radius; ++j)
        for (int i = -radius; i <= radius; ++i)
          if (x + i >= 0 && x + i < width && y + j >= 0 && y + j < height)
            wanted += static_cast<double>(taps[i + radius]) * taps[j + radius] * image[(y + j) * width + x + i];
      HOLDS(close(ours[y * width + x], wanted, 20));  // 18 products and sums
    }
}
