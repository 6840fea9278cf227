// Stream capture and graphs, as far as one stream goes: no forks over events, no nodes made by hand.
#include "vgpu/driver/graph.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

constexpr int most_capture_mode = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED

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
    if (stream->is_capture_broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *graph = handle_of<CUgraph>(all.graphs.add(std::make_unique<Graph>(*captured)));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamIsCapturing(CUstream handle, int* status) {
  return with_context("cuStreamIsCapturing", [&](State& all, Context& context) {
    const Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *status = stream->capture == nullptr  ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->is_capture_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle, std::uint64_t /*flags*/) {
  return with_context("cuGraphInstantiate", [&](State& all, Context&) {
    const Graph* const graph = all.graphs.find(handle);
    if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *exec = handle_of<CUgraphExec>(all.graph_execs.add(std::make_unique<Graph>(*graph)));
    return CUDA_SUCCESS;
  });
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
VGPU_EXPORT CUresult cuGraphDestroy(CUgraph handle) {
  return with_context("cuGraphDestroy", [&](State& all, Context&) {
    return all.graphs.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}
VGPU_EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return with_context("cuGraphExecDestroy", [&](State& all, Context&) {
    return all.graph_execs.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

VGPU_PER_THREAD(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz);
VGPU_PER_THREAD(cuStreamEndCapture, cuStreamEndCapture_ptsz);
VGPU_PER_THREAD(cuStreamIsCapturing, cuStreamIsCapturing_ptsz);
VGPU_PER_THREAD(cuGraphLaunch, cuGraphLaunch_ptsz);
VGPU_PER_THREAD(cuGraphUpload, cuGraphUpload_ptsz);
