// A graph put together node by node: a memset, then two kernels, the second behind the first. Then other arguments for
// what is executable already, one node at a time and as a whole.
#include "sample.cuh"

__global__ void add(int* values, int much) {
  values[threadIdx.x] = values[threadIdx.x] * 10 + much;
}

int main() {
  constexpr int count = 64;
  DeviceArray<int> values(std::vector<int>(count, 77));
  int* address = values;
  cudaGraph_t graph;
  WORKS(cudaGraphCreate(&graph, 0));
  cudaMemsetParams zero{};
  zero.dst = address;
  zero.elementSize = 4;
  zero.width = count;
  zero.height = 1;
  cudaGraphNode_t cleared, first, second;
  WORKS(cudaGraphAddMemsetNode(&cleared, graph, nullptr, 0, &zero));
  int one = 1, two = 2;
  void* first_arguments[] = {&address, &one};
  void* second_arguments[] = {&address, &two};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add);
  kernel.gridDim = dim3(1);
  kernel.blockDim = dim3(count);
  kernel.kernelParams = first_arguments;
  WORKS(cudaGraphAddKernelNode(&first, graph, &cleared, 1, &kernel));
  kernel.kernelParams = second_arguments;
  WORKS(cudaGraphAddKernelNode(&second, graph, &first, 1, &kernel));
  cudaGraphExec_t executable;
  WORKS(cudaGraphInstantiate(&executable, graph, 0));
  WORKS(cudaGraphLaunch(executable, nullptr));
  finish();
  for (const int value : values.host()) HOLDS(value == 12);

  two = 5;
  WORKS(cudaGraphExecKernelNodeSetParams(executable, second, &kernel));
  WORKS(cudaGraphLaunch(executable, nullptr));
  finish();
  for (const int value : values.host()) HOLDS(value == 15);
  HOLDS(cudaGraphExecKernelNodeSetParams(executable, cleared, &kernel) == cudaErrorInvalidValue);
  HOLDS(cudaGetLastError() == cudaErrorInvalidValue);
  zero.value = 2;
  WORKS(cudaGraphExecMemsetNodeSetParams(executable, cleared, &zero));
  WORKS(cudaGraphLaunch(executable, nullptr));
  finish();
  for (const int value : values.host()) HOLDS(value == 215);
  cudaGraphExecUpdateResultInfo told{};
  WORKS(cudaGraphExecUpdate(executable, graph, &told));
  HOLDS(told.result == cudaGraphExecUpdateSuccess);
  WORKS(cudaGraphLaunch(executable, nullptr));
  finish();
  for (const int value : values.host()) HOLDS(value == 12);
  cudaGraphNodeType type;
  WORKS(cudaGraphNodeGetType(first, &type));
  HOLDS(type == cudaGraphNodeTypeKernel);
  WORKS(cudaGraphExecDestroy(executable));
  WORKS(cudaGraphDestroy(graph));
}
