// Rows with a pitch, and a box within a box by cudaMemcpy3D.
#include "sample.cuh"

__global__ void negate(int* image, std::size_t pitch, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x < width && y < height) {
    int* row = reinterpret_cast<int*>(reinterpret_cast<char*>(image) + y * pitch);
    row[x] = -row[x];
  }
}

int main() {
  constexpr int width = 45, height = 10, depth = 3;
  std::vector<int> image(width * height * depth);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<int>(i);
  int* plane = nullptr;
  std::size_t pitch = 0;
  WORKS(cudaMallocPitch(&plane, &pitch, width * sizeof(int), height));
  WORKS(cudaMemcpy2D(plane, pitch, image.data(), width * sizeof(int), width * sizeof(int), height,
                     cudaMemcpyHostToDevice));
  negate<<<dim3(blocks_for(width, 32), height), 32>>>(plane, pitch, width, height);
  finish();
  std::vector<int> back(width * height);
  WORKS(cudaMemcpy2D(back.data(), width * sizeof(int), plane, pitch, width * sizeof(int), height,
                     cudaMemcpyDeviceToHost));
  for (int i = 0; i < width * height; ++i) HOLDS(back[i] == -i);
  WORKS(cudaFree(plane));

  cudaPitchedPtr box{};
  WORKS(cudaMalloc3D(&box, make_cudaExtent(width * sizeof(int), height, depth)));
  cudaMemcpy3DParms copy{};
  copy.srcPtr = make_cudaPitchedPtr(image.data(), width * sizeof(int), width, height);
  copy.dstPtr = box;
  copy.extent = make_cudaExtent(width * sizeof(int), height, depth);
  copy.kind = cudaMemcpyHostToDevice;
  WORKS(cudaMemcpy3D(&copy));
  std::vector<int> inner(4 * 2 * 2);
  cudaMemcpy3DParms part{};
  part.srcPtr = box;
  part.srcPos = make_cudaPos(5 * sizeof(int), 3, 1);
  part.dstPtr = make_cudaPitchedPtr(inner.data(), 4 * sizeof(int), 4, 2);
  part.extent = make_cudaExtent(4 * sizeof(int), 2, 2);
  part.kind = cudaMemcpyDeviceToHost;
  WORKS(cudaMemcpy3D(&part));
  for (int z = 0; z < 2; ++z)
    for (int y = 0; y < 2; ++y)
      for (int x = 0; x < 4; ++x) HOLDS(inner[(z * 2 + y) * 4 + x] == ((z + 1) * height + y + 3) * width + x + 5);
  WORKS(cudaFree(box.ptr));
}
