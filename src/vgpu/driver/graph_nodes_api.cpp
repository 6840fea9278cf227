// Graphs made node by node. A node is what the call of the same name would leave in a stream that captures.
#include <algorithm>

#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch.hpp"

extern "C" {
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* user);
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
    made->capture_mode = CaptureMode::relaxed;  // it disturbs nobody
    made->capture_thread = std::this_thread::get_id();
    stream_ = all.streams.add(std::move(made));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { all_.streams.remove(stream_); }
  [[nodiscard]] CUstream stream() const { return handle_of<CUstream>(stream_); }
  // What the call left; work of nothing, where it had nothing to do.
  [[nodiscard]] StreamWork work() const {
    if (graph_->nodes.empty()) return [](State&, Context&, CUstream) { return CUDA_SUCCESS; };
    return graph_->nodes.front();
  }

 private:
  State& all_;
  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  Stream* stream_ = nullptr;
};

bool is_node(const Graph& graph, const void* node) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [node](const StreamWork& one) { return &one == node; });
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
    graph->nodes.push_back(capture.work());
    *node = &graph->nodes.back();
    graph->waits_for[*node].assign(dependencies, dependencies + count);
    return CUDA_SUCCESS;
  });
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
  // A kernel of a library stands for its function.
  const CUfunction function = what->func != nullptr ? what->func : reinterpret_cast<CUfunction>(what->kern);
  return add_node("cuGraphAddKernelNode", node, graph, dependencies, count, [&](CUstream stream) {
    return cuLaunchKernel(function, what->gridDimX, what->gridDimY, what->gridDimZ, what->blockDimX, what->blockDimY,
                          what->blockDimZ, what->sharedMemBytes, stream, what->kernelParams, what->extra);
  });
}
VGPU_EXPORT CUresult cuGraphAddMemcpyNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                          const CUDA_MEMCPY3D* what, CUcontext /*context*/) {
  return add_node("cuGraphAddMemcpyNode", node, graph, dependencies, count,
                  [&](CUstream stream) { return cuMemcpy3DAsync_v2(what, stream); });
}
VGPU_EXPORT CUresult cuGraphAddMemsetNode(void** node, CUgraph graph, void* const* dependencies, std::size_t count,
                                          const CUDA_MEMSET_NODE_PARAMS* what, CUcontext /*context*/) {
  if (what == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add_node("cuGraphAddMemsetNode", node, graph, dependencies, count, [&](CUstream stream) {
    switch (what->elementSize) {
      case 1:
        return cuMemsetD2D8Async(what->dst, what->pitch, static_cast<unsigned char>(what->value), what->width,
                                 what->height, stream);
      case 2:
        return cuMemsetD2D16Async(what->dst, what->pitch, static_cast<unsigned short>(what->value), what->width,
                                  what->height, stream);
      case 4:
        return cuMemsetD2D32Async(what->dst, what->pitch, what->value, what->width, what->height, stream);
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
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
