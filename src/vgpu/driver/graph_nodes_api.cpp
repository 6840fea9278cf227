// Graphs made node by node. A node is what the call of the same name would leave in a stream that captures.
#include <algorithm>

#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch.hpp"

extern "C" {
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user);
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_bytes,
                                   CUstream stream, void** parameters);
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_bytes, CUstream stream, void** parameters,
                        void** extra);
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* what, CUstream stream);
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width,
                           std::size_t height, CUstream stream);
CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width,
                            std::size_t height, CUstream stream);
CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
                            CUstream stream);
}

namespace flashmoe::vgpu::driver {
namespace {

// A stream that captures, for one call.
class Capture {
 public:
  Capture(State& all, Context& context) : all_(all) {
    auto made = std::make_unique<Stream>();
    made->context = &context;
    made->is_blocking = false;
    made->capture = graph_;
    made->makes_node = true;
    made->capture_mode = CaptureMode::relaxed;  // it disturbs nobody
    made->capture_thread = std::this_thread::get_id();
    stream_ = all.streams.add(std::move(made));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { all_.streams.remove(stream_); }
  [[nodiscard]] CUstream stream() const { return handle_of<CUstream>(stream_); }
  // What the call left; work of nothing, where it had nothing to do.
  [[nodiscard]] Node node() const {
    if (graph_->nodes.empty()) return {.work = [](State&, Context&, CUstream) { return CUDA_SUCCESS; }};
    return graph_->nodes.front();
  }

 private:
  State& all_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  Stream* stream_ = nullptr;
};

bool is_node(const Graph& graph, const void* node) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [node](const Node& one) { return &one == node; });
}

// The node for which `call` asks a stream.
CUresult add_node(const char* function, void** node, CUgraph handle, void* const* dependencies, std::size_t count,
                  const std::function<CUresult(CUstream)>& call) {
  return with_context(function, [&](State& all, Context& context) {
    Graph* const graph = all.graphs.find(handle);
    if (graph == nullptr || node == nullptr || (count != 0 && dependencies == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i)
      if (!is_node(*graph, dependencies[i])) return CUDA_ERROR_INVALID_VALUE;
    const Capture capture(all, context);
    if (const CUresult result = call(capture.stream()); result != CUDA_SUCCESS) return result;
    graph->nodes.push_back(capture.node());
    *node = &graph->nodes.back();
    graph->waits_for[*node].assign(dependencies, dependencies + count);
    return CUDA_SUCCESS;
  });
}

// Gives a node the work for which `call` asks a stream. Of all the rest it stays what it was.
CUresult set_node(State& all, Context& context, Node* node, int type, const std::function<CUresult(CUstream)>& call) {
  if (node == nullptr || node->kind.type != type) return CUDA_ERROR_INVALID_VALUE;
  const Capture capture(all, context);
  if (const CUresult result = call(capture.stream()); result != CUDA_SUCCESS) return result;
  const Node made = capture.node();
  if (made.kind != node->kind) return CUDA_ERROR_INVALID_VALUE;
  node->work = made.work;
  return CUDA_SUCCESS;
}

// The node of an executable graph that was made of this one.
Node* find_node(State& all, CUgraphExec handle, const void* origin) {
  Graph* const exec = all.graph_execs.find(handle);
  if (exec == nullptr) return nullptr;
  const auto found =
      std::find_if(exec->nodes.begin(), exec->nodes.end(), [origin](const Node& one) { return one.origin == origin; });
  return found == exec->nodes.end() ? nullptr : &*found;
}

// A node of any graph.
Node* find_node(State& all, void* node) {
  const bool is_one = std::any_of(all.graphs.begin(), all.graphs.end(),
                                  [node](const auto& entry) { return is_node(*entry.second, node); });
  return is_one ? static_cast<Node*>(node) : nullptr;
}

CUresult set_exec_node(const char* function, CUgraphExec exec, const void* origin, int type,
                       const std::function<CUresult(CUstream)>& call) {
  return with_context(function, [&](State& all, Context& context) {
    return set_node(all, context, find_node(all, exec, origin), type, call);
  });
}

CUDA_KERNEL_NODE_PARAMS of_version_1(const CUDA_KERNEL_NODE_PARAMS_v1& what) {
  return {.func = what.func,
          .gridDimX = what.gridDimX,
          .gridDimY = what.gridDimY,
          .gridDimZ = what.gridDimZ,
          .blockDimX = what.blockDimX,
          .blockDimY = what.blockDimY,
          .blockDimZ = what.blockDimZ,
          .sharedMemBytes = what.sharedMemBytes,
          .kernelParams = what.kernelParams,
          .extra = what.extra,
          .kern = nullptr,
          .ctx = nullptr};
}

CUresult launch_node(const CUDA_KERNEL_NODE_PARAMS& what, CUstream stream, bool is_cooperative) {
  // A kernel of a library stands for its function.
  const CUfunction function = what.func != nullptr ? what.func : reinterpret_cast<CUfunction>(what.kern);
  if (is_cooperative)
    return cuLaunchCooperativeKernel(function, what.gridDimX, what.gridDimY, what.gridDimZ, what.blockDimX,
                                     what.blockDimY, what.blockDimZ, what.sharedMemBytes, stream, what.kernelParams);
  return cuLaunchKernel(function, what.gridDimX, what.gridDimY, what.gridDimZ, what.blockDimX, what.blockDimY,
                        what.blockDimZ, what.sharedMemBytes, stream, what.kernelParams, what.extra);
}

CUresult set_kernel(State& all, Context& context, Node* node, const CUDA_KERNEL_NODE_PARAMS& what) {
  return set_node(all, context, node, CU_GRAPH_NODE_TYPE_KERNEL,
                  [&](CUstream stream) { return launch_node(what, stream, node->kind.is_cooperative); });
}

CUresult fill_node(const CUDA_MEMSET_NODE_PARAMS& what, CUstream stream) {
  switch (what.elementSize) {
    case 1:
      return cuMemsetD2D8Async(what.dst, what.pitch, static_cast<unsigned char>(what.value), what.width, what.height,
                               stream);
    case 2:
      return cuMemsetD2D16Async(what.dst, what.pitch, static_cast<unsigned short>(what.value), what.width, what.height,
                                stream);
    case 4:
      return cuMemsetD2D32Async(what.dst, what.pitch, what.value, what.width, what.height, stream);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::driver

using namespace flashmoe::vgpu::driver;

VGPU_EXPORT CUresult cuGraphCreate(CUgraph* out, unsigned flags) {
  return with_context("cuGraphCreate", [&](State& all, Context& context) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Graph>();
    made->context = &context;
    *out = handle_of<CUgraph>(all.graphs.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuGraphAddKernelNode_v2(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                             const CUDA_KERNEL_NODE_PARAMS* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_node("cuGraphAddKernelNode", node, graph, dependencies, count,
                  [&](CUstream stream) { return launch_node(*what, stream, false); });
}
VGPU_EXPORT CUresult cuGraphAddKernelNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                          const CUDA_KERNEL_NODE_PARAMS_v1* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS whole = of_version_1(*what);
  return cuGraphAddKernelNode_v2(node, graph, dependencies, count, &whole);
}
VGPU_EXPORT CUresult cuGraphAddMemcpyNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                          const CUDA_MEMCPY3D* what, CUcontext /*context*/) {
  return add_node("cuGraphAddMemcpyNode", node, graph, dependencies, count,
                  [&](CUstream stream) { return cuMemcpy3DAsync_v2(what, stream); });
}
VGPU_EXPORT CUresult cuGraphAddMemsetNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                          const CUDA_MEMSET_NODE_PARAMS* what, CUcontext /*context*/) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_node("cuGraphAddMemsetNode", node, graph, dependencies, count,
                  [&](CUstream stream) { return fill_node(*what, stream); });
}
VGPU_EXPORT CUresult cuGraphAddHostNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                        const CUDA_HOST_NODE_PARAMS* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_node("cuGraphAddHostNode", node, graph, dependencies, count,
                  [&](CUstream stream) { return cuLaunchHostFunc(stream, what->fn, what->userData); });
}
VGPU_EXPORT CUresult cuGraphAddEmptyNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count) {
  return add_node("cuGraphAddEmptyNode", node, graph, dependencies, count, [](CUstream) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph handle, void* const* from, void* const* to,
                                               const void* /*edges*/, std::size_t count) {
  return with_context("cuGraphAddDependencies", [&](State& all, Context&) {
    Graph* const graph = all.graphs.find(handle);
    if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr))) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i)
      if (!is_node(*graph, from[i]) || !is_node(*graph, to[i]) || from[i] == to[i]) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) graph->waits_for[to[i]].push_back(from[i]);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, void* const* from, void* const* to, std::size_t count) {
  return cuGraphAddDependencies_v2(graph, from, to, nullptr, count);
}

VGPU_EXPORT CUresult cuGraphNodeGetType(void* node, int* type) {
  return with_driver("cuGraphNodeGetType", [&](State& all) {
    const Node* const found = find_node(all, node);
    if (found == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = found->kind.type;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuGraphKernelNodeSetParams_v2(void* node, const CUDA_KERNEL_NODE_PARAMS* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_context("cuGraphKernelNodeSetParams", [&](State& all, Context& context) {
    return set_kernel(all, context, find_node(all, node), *what);
  });
}
VGPU_EXPORT CUresult cuGraphKernelNodeSetParams(void* node, const CUDA_KERNEL_NODE_PARAMS_v1* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS whole = of_version_1(*what);
  return cuGraphKernelNodeSetParams_v2(node, &whole);
}

// What follows gives a node of an executable graph other parameters, and leaves the graph that it was made of alone.
VGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, void* node,
                                                       const CUDA_KERNEL_NODE_PARAMS* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_context("cuGraphExecKernelNodeSetParams", [&](State& all, Context& context) {
    return set_kernel(all, context, find_node(all, exec, node), *what);
  });
}
VGPU_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, void* node,
                                                    const CUDA_KERNEL_NODE_PARAMS_v1* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_KERNEL_NODE_PARAMS whole = of_version_1(*what);
  return cuGraphExecKernelNodeSetParams_v2(exec, node, &whole);
}
// CUDA Driver API: neither the copy of before nor that of now has a second dimension, or no bytes.
VGPU_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, void* node, const CUDA_MEMCPY3D* what,
                                                    CUcontext /*context*/) {
  if (what == nullptr || what->WidthInBytes == 0 || what->Height != 1 || what->Depth != 1)
    return CUDA_ERROR_INVALID_VALUE;
  return set_exec_node("cuGraphExecMemcpyNodeSetParams", exec, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                       [&](CUstream stream) { return cuMemcpy3DAsync_v2(what, stream); });
}
VGPU_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, void* node, const CUDA_MEMSET_NODE_PARAMS* what,
                                                    CUcontext /*context*/) {
  if (what == nullptr || what->width == 0 || what->height == 0) return CUDA_ERROR_INVALID_VALUE;
  return set_exec_node("cuGraphExecMemsetNodeSetParams", exec, node, CU_GRAPH_NODE_TYPE_MEMSET,
                       [&](CUstream stream) { return fill_node(*what, stream); });
}
VGPU_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, void* node, const CUDA_HOST_NODE_PARAMS* what) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_exec_node("cuGraphExecHostNodeSetParams", exec, node, CU_GRAPH_NODE_TYPE_HOST,
                       [&](CUstream stream) { return cuLaunchHostFunc(stream, what->fn, what->userData); });
}
