// Stream capture and graphs, as far as one stream goes: no forks over events. Nodes made by hand: graph_nodes_api.cpp.
#include <algorithm>
#include <set>

#include "vgpu/driver/graph.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

constexpr int most_capture_mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

int capture_status(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.is_capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// The same work, each node behind those that it waits for, else in the order in which they were made. Null: there is no
// such order.
std::unique_ptr<Graph> in_order(const Graph& graph) {
  auto made = std::make_unique<Graph>();
  made->context = graph.context;
  made->user_objects = graph.user_objects;
  std::set<const void*> done;
  const auto is_ready = [&](const StreamWork& node) {
    const auto waits = graph.waits_for.find(&node);
    return !done.contains(&node) &&
           (waits == graph.waits_for.end() || std::all_of(waits->second.begin(), waits->second.end(),
                                                          [&](const void* one) { return done.contains(one); }));
  };
  while (done.size() < graph.nodes.size()) {
    const auto next = std::find_if(graph.nodes.begin(), graph.nodes.end(), is_ready);
    if (next == graph.nodes.end()) return nullptr;
    made->nodes.push_back(*next);
    done.insert(&*next);
  }
  return made;
}

}  // namespace

VGPU_EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, int mode) {
  return with_context("cuStreamBeginCapture", [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < 0 || mode > most_capture_mode) return CUDA_ERROR_INVALID_VALUE;
    // The default stream waits for others, which no graph can hold.
    if (stream->is_legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = std::make_shared<Graph>();
    stream->capture->context = &context;
    stream->capture->capture_id = all.next_id++;
    stream->captured = handle_of<CUgraph>(all.graphs.add(std::make_unique<Graph>(*stream->capture)));
    stream->is_capture_broken = false;
    stream->capture_mode = static_cast<CaptureMode>(mode);
    stream->capture_thread = std::this_thread::get_id();
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return with_context("cuStreamEndCapture", [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *graph = nullptr;
    if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    // Others may end a capture that is relaxed.
    if (stream->capture_mode != CaptureMode::relaxed && stream->capture_thread != std::this_thread::get_id())
      return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    const auto captured = std::exchange(stream->capture, nullptr);
    Graph* const whole = all.graphs.find(stream->captured);
    if (stream->is_capture_broken || whole == nullptr) {
      (void)all.graphs.remove(stream->captured);
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    *whole = *captured;
    *graph = stream->captured;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int* status) {
  return with_context("cuStreamIsCapturing", [&](State& all, Context& context) {
    const Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = capture_status(*stream);
    return CUDA_SUCCESS;
  });
}
// A stream is a chain: the next node waits for the last one.
VGPU_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream handle, int* status, std::uint64_t* id, CUgraph* graph,
                                               const void** dependencies, const void** edges, std::size_t* count) {
  return with_context("cuStreamGetCaptureInfo", [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = capture_status(*stream);
    const bool is_active = *status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id != nullptr) *id = is_active ? stream->capture->capture_id : 0;
    if (!is_active) return CUDA_SUCCESS;
    const auto& nodes = stream->capture->nodes;
    stream->last_captured = nodes.empty() ? nullptr : &nodes.back();
    if (graph != nullptr) *graph = stream->captured;
    if (dependencies != nullptr) *dependencies = &stream->last_captured;
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = nodes.empty() ? 0 : 1;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, int* status, std::uint64_t* id, CUgraph* graph,
                                               const void** dependencies, std::size_t* count) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, nullptr, count);
}

VGPU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle, std::uint64_t /*flags*/) {
  return with_context("cuGraphInstantiate", [&](State& all, Context&) {
    const Graph* const graph = all.graphs.find(handle);
    if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto made = in_order(*graph);
    if (made == nullptr) return CUDA_ERROR_INVALID_VALUE;  // nodes that wait for each other
    *exec = handle_of<CUgraphExec>(all.graph_execs.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph handle,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS* asked) {
  if (asked == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuGraphInstantiateWithFlags(exec, handle, asked->flags);
  asked->hErrNode_out = nullptr;
  asked->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}
VGPU_EXPORT CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return with_context("cuGraphLaunch", [&](State& all, Context& context) {
    const Graph* const exec = all.graph_execs.find(handle);
    Stream* const stream = all.stream(stream_handle, context);
    if (exec == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const StreamWork& node : exec->nodes) {
      if (const CUresult result = perform(all, context, *stream, stream_handle, node); result != CUDA_SUCCESS)
        return result;
    }
    return CUDA_SUCCESS;
  });
}
// Nothing lies anywhere else: what is checked is what a launch would check.
VGPU_EXPORT CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  return with_context("cuGraphUpload", [&](State& all, Context& context) {
    const bool known = all.graph_execs.find(handle) != nullptr && all.stream(stream_handle, context) != nullptr;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
// A node is known by its place; nothing else can be asked of it.
VGPU_EXPORT CUresult cuGraphGetNodes(CUgraph handle, void** nodes, std::size_t* count) {
  return with_driver("cuGraphGetNodes", [&](State& all) {
    Graph* const graph = all.graphs.find(handle);
    if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (nodes == nullptr) {
      *count = graph->nodes.size();
      return CUDA_SUCCESS;
    }
    // What there is room for beyond the last one is said to be none.
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = i < graph->nodes.size() ? &graph->nodes[i] : nullptr;
    *count = std::min(*count, graph->nodes.size());
    return CUDA_SUCCESS;
  });
}
// Graphs end when nobody holds the driver's lock any more, because of the user objects that end with them.
VGPU_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  std::unique_ptr<Graph> last;
  return with_context("cuGraphDestroy", [&](State& all, Context&) {
    last = all.graphs.take(handle);
    return last != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
VGPU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  std::unique_ptr<Graph> last;
  return with_context("cuGraphExecDestroy", [&](State& all, Context&) {
    last = all.graph_execs.take(handle);
    return last != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

VGPU_PER_THREAD(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz);
VGPU_PER_THREAD(cuStreamEndCapture, cuStreamEndCapture_ptsz);
VGPU_PER_THREAD(cuStreamIsCapturing, cuStreamIsCapturing_ptsz);
VGPU_PER_THREAD(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz);
VGPU_PER_THREAD(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz);
VGPU_PER_THREAD(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz);
VGPU_PER_THREAD(cuGraphLaunch, cuGraphLaunch_ptsz);
VGPU_PER_THREAD(cuGraphUpload, cuGraphUpload_ptsz);
