// Graphs made node by node, by the driver's functions of the same names.
#include <functional>

#include "vgpu/cudart/calls.hpp"
#include "vgpu/cudart/registered.hpp"

using namespace flashmoe::vgpu::cudart;

namespace {

// `call` with the driver's words for a kernel node.
cudaError_t with_kernel(const cudaKernelNodeParams* what,
                        const std::function<CUresult(const CUDA_KERNEL_NODE_PARAMS&)>& call) {
  return answered([&]() -> cudaError_t {
    if (what == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = make_ready(); error != cudaSuccess) return error;
    CUfunction function = nullptr;
    if (const cudaError_t error = find_function(what->func, function); error != cudaSuccess) return error;
    return call({.func = function,
                 .gridDimX = what->gridDim.x,
                 .gridDimY = what->gridDim.y,
                 .gridDimZ = what->gridDim.z,
                 .blockDimX = what->blockDim.x,
                 .blockDimY = what->blockDim.y,
                 .blockDimZ = what->blockDim.z,
                 .sharedMemBytes = what->sharedMemBytes,
                 .kernelParams = what->kernelParams,
                 .extra = what->extra,
                 .kern = nullptr,
                 .ctx = nullptr});
  });
}

cudaMemcpy3DParms flat_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  cudaMemcpy3DParms what{};
  what.srcPtr = {const_cast<void*>(from), bytes, bytes, 1};
  what.dstPtr = {to, bytes, bytes, 1};
  what.extent = {bytes, 1, 1};
  what.kind = kind;
  return what;
}

}  // namespace

VGPU_FORWARD(cudaGraphCreate, (CUgraph * graph, unsigned flags), cuGraphCreate(graph, flags))
VGPU_RUNTIME cudaError_t cudaGraphAddKernelNode(void** node, CUgraph graph, void* const* dependencies,
                                                std::size_t count, const cudaKernelNodeParams* what) {
  return with_kernel(what, [&](const CUDA_KERNEL_NODE_PARAMS& asked) {
    return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &asked);
  });
}
VGPU_RUNTIME cudaError_t cudaGraphAddMemcpyNode(void** node, CUgraph graph, void* const* dependencies,
                                                std::size_t count, const cudaMemcpy3DParms* what) {
  return on_device([&]() -> CUresult {
    CUDA_MEMCPY3D copy{};
    if (const CUresult wrong = driver_box(what, copy); wrong != CUDA_SUCCESS) return wrong;
    return cuGraphAddMemcpyNode(node, graph, dependencies, count, &copy, nullptr);
  });
}
VGPU_RUNTIME cudaError_t cudaGraphAddMemcpyNode1D(void** node, CUgraph graph, void* const* dependencies,
                                                  std::size_t count, void* to, const void* from, std::size_t bytes,
                                                  cudaMemcpyKind kind) {
  const cudaMemcpy3DParms what = flat_copy(to, from, bytes, kind);
  return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &what);
}
VGPU_FORWARD(cudaGraphAddMemsetNode,
             (void** node, CUgraph graph, void* const* dependencies, std::size_t count,
              const CUDA_MEMSET_NODE_PARAMS* what),
             cuGraphAddMemsetNode(node, graph, dependencies, count, what, nullptr))
VGPU_FORWARD(cudaGraphAddHostNode,
             (void** node, CUgraph graph, void* const* dependencies, std::size_t count,
              const CUDA_HOST_NODE_PARAMS* what),
             cuGraphAddHostNode(node, graph, dependencies, count, what))
VGPU_FORWARD(cudaGraphAddEmptyNode, (void** node, CUgraph graph, void* const* dependencies, std::size_t count),
             cuGraphAddEmptyNode(node, graph, dependencies, count))
VGPU_FORWARD(cudaGraphAddDependencies,
             (CUgraph graph, void* const* from, void* const* to, const void* edges, std::size_t count),
             cuGraphAddDependencies_v2(graph, from, to, edges, count))
VGPU_FORWARD(cudaGraphNodeGetType, (void* node, int* type), cuGraphNodeGetType(node, type))

VGPU_RUNTIME cudaError_t cudaGraphKernelNodeSetParams(void* node, const cudaKernelNodeParams* what) {
  return with_kernel(what,
                     [&](const CUDA_KERNEL_NODE_PARAMS& asked) { return cuGraphKernelNodeSetParams_v2(node, &asked); });
}
VGPU_RUNTIME cudaError_t cudaGraphExecKernelNodeSetParams(CUgraphExec executable, void* node,
                                                          const cudaKernelNodeParams* what) {
  return with_kernel(what, [&](const CUDA_KERNEL_NODE_PARAMS& asked) {
    return cuGraphExecKernelNodeSetParams_v2(executable, node, &asked);
  });
}
VGPU_RUNTIME cudaError_t cudaGraphExecMemcpyNodeSetParams(CUgraphExec executable, void* node,
                                                          const cudaMemcpy3DParms* what) {
  return on_device([&]() -> CUresult {
    CUDA_MEMCPY3D copy{};
    if (const CUresult wrong = driver_box(what, copy); wrong != CUDA_SUCCESS) return wrong;
    return cuGraphExecMemcpyNodeSetParams(executable, node, &copy, nullptr);
  });
}
VGPU_RUNTIME cudaError_t cudaGraphExecMemcpyNodeSetParams1D(CUgraphExec executable, void* node, void* to,
                                                            const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaMemcpy3DParms what = flat_copy(to, from, bytes, kind);
  return cudaGraphExecMemcpyNodeSetParams(executable, node, &what);
}
VGPU_FORWARD(cudaGraphExecMemsetNodeSetParams,
             (CUgraphExec executable, void* node, const CUDA_MEMSET_NODE_PARAMS* what),
             cuGraphExecMemsetNodeSetParams(executable, node, what, nullptr))
VGPU_FORWARD(cudaGraphExecHostNodeSetParams, (CUgraphExec executable, void* node, const CUDA_HOST_NODE_PARAMS* what),
             cuGraphExecHostNodeSetParams(executable, node, what))
VGPU_FORWARD(cudaGraphExecUpdate, (CUgraphExec executable, CUgraph with, CUgraphExecUpdateResultInfo* told),
             cuGraphExecUpdate_v2(executable, with, told))
