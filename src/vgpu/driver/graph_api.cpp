// Stream capture and graphs, as far as one stream goes: no forks over events. Nodes made by hand: graph_nodes_api.cpp.
#include <algorithm>
#include <map>

#include "vgpu/driver/graph.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

constexpr int most_capture_mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

int capture_status(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.is_capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

// What a node waits for: of nodes made one by one what was said, else the one before.
std::vector<const void*> dependencies_of(const Graph& graph, std::size_t node) {
  const auto said = graph.waits_for.find(&graph.nodes[node]);
  if (said != graph.waits_for.end()) return said->second;
  return node == 0 ? std::vector<const void*>{} : std::vector<const void*>{&graph.nodes[node - 1]};
}

// The same work, each node behind those that it waits for, else in the order in which they were made. Null: there is no
// such order.
std::unique_ptr<Graph> in_order(const Graph& graph) {
  auto made = std::make_unique<Graph>();
  made->context = graph.context;
  made->user_objects = graph.user_objects;
  std::map<const void*, const void*> done;  // to what was made of it
  std::size_t first = 0;                    // that is not done
  for (std::size_t i = 0; first < graph.nodes.size(); ++i) {
    if (i == graph.nodes.size()) return nullptr;
    const Node& node = graph.nodes[i];
    if (done.contains(&node)) continue;
    std::vector<const void*> waits = dependencies_of(graph, i);
    if (!std::all_of(waits.begin(), waits.end(), [&](const void* one) { return done.contains(one); })) continue;
    for (const void*& one : waits) one = done.at(one);
    const Node& copy = made->nodes.emplace_back(Node{.kind = node.kind, .work = node.work, .origin = &node});
    made->waits_for[&copy] = std::move(waits);
    done[&node] = &copy;
    while (first < graph.nodes.size() && done.contains(&graph.nodes[first])) ++first;
    i = first - 1;  // again from the first that is not done
  }
  return made;
}

// How two graphs in order differ; a graph that differs gives another one no parameters.
CUgraphExecUpdateResultInfo difference(const Graph& exec, const Graph& given) {
  if (exec.nodes.size() != given.nodes.size())
    return {.result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, .errorNode = nullptr, .errorFromNode = nullptr};
  std::map<const void*, const void*> pair_of;  // of given nodes
  for (std::size_t i = 0; i < given.nodes.size(); ++i) {
    const Node &ours = exec.nodes[i], &theirs = given.nodes[i];
    pair_of[&theirs] = &ours;
    std::vector<const void*> waits = given.waits_for.at(&theirs);
    for (const void*& one : waits) one = pair_of.at(one);
    const int result = ours.kind.type != theirs.kind.type     ? CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED
                       : exec.waits_for.at(&ours) != waits    ? CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED
                       : ours.kind.owner != theirs.kind.owner ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                       : ours.kind != theirs.kind             ? CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED
                                                              : CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      return {.result = result, .errorNode = const_cast<void*>(theirs.origin), .errorFromNode = nullptr};
  }
  return {.result = CU_GRAPH_EXEC_UPDATE_SUCCESS, .errorNode = nullptr, .errorFromNode = nullptr};
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
// Before CUDA 12: place and log of an error, of which there are none here.
VGPU_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph handle, void** error_node, char* log,
                                           std::size_t log_bytes) {
  if (error_node != nullptr) *error_node = nullptr;
  if (log != nullptr && log_bytes != 0) *log = 0;
  return cuGraphInstantiateWithFlags(exec, handle, 0);
}
VGPU_EXPORT CUresult cuGraphInstantiate(CUgraphExec* exec, CUgraph handle, void** error_node, char* log,
                                        std::size_t log_bytes) {
  return cuGraphInstantiate_v2(exec, handle, error_node, log, log_bytes);
}
VGPU_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph with, CUgraphExecUpdateResultInfo* told) {
  return with_context("cuGraphExecUpdate", [&](State& all, Context&) {
    if (told == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *told = {.result = CU_GRAPH_EXEC_UPDATE_ERROR, .errorNode = nullptr, .errorFromNode = nullptr};
    Graph* const exec = all.graph_execs.find(handle);
    const Graph* const graph = all.graphs.find(with);
    if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto given = in_order(*graph);
    if (given == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *told = difference(*exec, *given);
    if (told->result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    for (std::size_t i = 0; i < given->nodes.size(); ++i) exec->nodes[i].work = given->nodes[i].work;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph with, void** error_node, int* told) {
  if (error_node == nullptr || told == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUgraphExecUpdateResultInfo all{};
  const CUresult result = cuGraphExecUpdate_v2(handle, with, &all);
  *error_node = all.errorNode;
  *told = all.result;
  return result;
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
    for (const Node& node : exec->nodes) {
      if (const CUresult result = perform(all, context, *stream, stream_handle, node.kind, node.work);
          result != CUDA_SUCCESS)
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
// A node is known by its place.
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
