// Work of a stream as a graph: captured once, launched again over other numbers.
#include "sample.cuh"

__global__ void axpy(float a, const float* x, float* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] += a * x[i];
}

int main() {
  constexpr int count = 500;
  DeviceArray<float> x(std::vector<float>(count, 1.0F)), y(std::vector<float>(count, 0.0F));
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  WORKS(cudaStreamCreate(&stream));
  WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  WORKS(cudaMemsetAsync(y, 0, count * sizeof(float), stream));
  for (int i = 1; i <= 3; ++i) axpy<<<blocks_for(count, 128), 128, 0, stream>>>(static_cast<float>(i), x, y, count);
  WORKS(cudaStreamEndCapture(stream, &graph));
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  for (const float value : {1.0F, 4.0F}) {
    const std::vector<float> other(count, value);
    WORKS(cudaMemcpy(x, other.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    WORKS(cudaGraphLaunch(executable, stream));
    WORKS(cudaStreamSynchronize(stream));
    for (const float one : y.host()) HOLDS(one == 6 * value);
  }
  WORKS(cudaGraphExecDestroy(executable));
  WORKS(cudaGraphDestroy(graph));
  WORKS(cudaStreamDestroy(stream));
}
