// Streams and events. Work is done when it is asked for; events keep times of the virtual clock (launch_time.hpp).
#include <algorithm>
#include <utility>

#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/launch_time.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/state.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

CUresult with_stream(const char* function, CUstream handle, const std::function<CUresult(State&, Stream&)>& body) {
  return with_context(function, [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(all, *stream);
  });
}

// Waiting and asking end a capture, as on a device.
CUresult cannot_be_captured(Stream& stream) {
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  stream.is_capture_broken = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

// Everything is done when it is asked for; only what was recorded inside a capture was never asked for.
CUresult wait_for_event(const char* function, CUevent handle) {
  return with_context(function, [&](State& all, Context&) {
    const Event* const event = all.events.find(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return event->is_captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
  });
}

CUresult create_stream(const char* function, CUstream* out, unsigned flags, int priority) {
  return with_context(function, [&](State& all, Context& context) {
    if (out == nullptr || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Stream>();
    made->context = &context;
    made->flags = flags;
    made->is_blocking = (flags & static_cast<unsigned>(CU_STREAM_NON_BLOCKING)) == 0;
    made->priority = std::clamp(priority, -5, 0);
    made->id = all.next_id++;
    *out = handle_of<CUstream>(all.streams.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}

}  // namespace

VGPU_EXPORT CUresult cuStreamCreate(CUstream* out, unsigned flags) {
  return create_stream("cuStreamCreate", out, flags, 0);
}
VGPU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) {
  return create_stream("cuStreamCreateWithPriority", out, flags, priority);
}
VGPU_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  return with_context("cuStreamDestroy", [&](State& all, Context&) {
    return all.streams.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
VGPU_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  return with_stream("cuStreamSynchronize", handle, [](State&, Stream& stream) { return cannot_be_captured(stream); });
}
VGPU_EXPORT CUresult cuStreamQuery(CUstream handle) {
  return with_stream("cuStreamQuery", handle, [](State&, Stream& stream) { return cannot_be_captured(stream); });
}
VGPU_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return with_stream("cuStreamGetFlags", handle, [&](State&, Stream& stream) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream.flags;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return with_stream("cuStreamGetPriority", handle, [&](State&, Stream& stream) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream.priority;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return with_stream("cuStreamGetId", handle, [&](State&, Stream& stream) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream.id;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return with_stream("cuStreamGetCtx", handle, [&](State&, Stream& stream) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = handle_of<CUcontext>(stream.context);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, void** green_context) {
  if (green_context != nullptr) *green_context = nullptr;
  return cuStreamGetCtx(handle, context);
}
VGPU_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return with_stream("cuStreamGetDevice", handle, [&](State&, Stream& stream) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = stream.context->device;
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuThreadExchangeStreamCaptureMode(int* mode) {
  return with_driver("cuThreadExchangeStreamCaptureMode", [&](State&) {
    if (mode == nullptr || *mode < 0 || *mode > static_cast<int>(CaptureMode::relaxed)) return CUDA_ERROR_INVALID_VALUE;
    const auto wanted = static_cast<CaptureMode>(*mode);
    *mode = static_cast<int>(std::exchange(thread_capture_mode(), wanted));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned /*flags*/) {
  return with_stream("cuStreamWaitEvent", handle, [&](State& all, Stream& stream) {
    const Event* const event = all.events.find(event_handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (event->is_recorded) stream.ready_ns = std::max(stream.ready_ns, event->at_ns);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* user, unsigned flags) {
  const CUresult result = with_stream("cuStreamAddCallback", handle, [&](State&, Stream&) {
    return callback == nullptr || flags != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
  // Everything before it is done; outside of the driver's lock, for it may wait for other threads that call the driver.
  if (result == CUDA_SUCCESS) callback(handle, CUDA_SUCCESS, user);
  return result;
}
VGPU_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* user) {
  bool is_captured = false;
  const CUresult result = with_context("cuLaunchHostFunc", [&](State& all, Context& context) {
    Stream* const stream = all.stream(handle, context);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    is_captured = stream->capture != nullptr;
    if (!is_captured) return CUDA_SUCCESS;
    return perform(all, context, *stream, handle, {.type = CU_GRAPH_NODE_TYPE_HOST},
                   [function, user](State&, Context&, CUstream) {
                     function(user);
                     return CUDA_SUCCESS;
                   });
  });
  if (result == CUDA_SUCCESS && !is_captured) function(user);  // as a callback
  return result;
}
VGPU_EXPORT CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr /*address*/, std::size_t /*length*/,
                                            unsigned /*flags*/) {
  return with_stream("cuStreamAttachMemAsync", handle, [](State&, Stream&) { return CUDA_SUCCESS; });
}

VGPU_EXPORT CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return with_context("cuEventCreate", [&](State& all, Context& context) {
    if (out == nullptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
    auto made = std::make_unique<Event>();
    made->context = &context;
    made->has_timing = (flags & static_cast<unsigned>(CU_EVENT_DISABLE_TIMING)) == 0;
    *out = handle_of<CUevent>(all.events.add(std::move(made)));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  return with_context("cuEventDestroy", [&](State& all, Context&) {
    return all.events.remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}
VGPU_EXPORT CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned /*flags*/) {
  return with_stream("cuEventRecord", stream_handle, [&](State& all, Stream& stream) {
    Event* const event = all.events.find(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    event->is_captured = stream.capture != nullptr;
    event->is_recorded = !event->is_captured;
    event->at_ns = all.start_ns(stream);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream) {
  return cuEventRecordWithFlags(handle, stream, 0);
}
VGPU_EXPORT CUresult cuEventQuery(CUevent handle) {
  return wait_for_event("cuEventQuery", handle);
}
VGPU_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  return wait_for_event("cuEventSynchronize", handle);
}
VGPU_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  return with_context("cuEventElapsedTime", [&](State& all, Context&) {
    const Event* const begin = all.events.find(begin_handle);
    const Event* const end = all.events.find(end_handle);
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (begin == nullptr || end == nullptr || !begin->has_timing || !end->has_timing || !begin->is_recorded ||
        !end->is_recorded)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!all.machine->watching.predicted_clock && !is_replaced())
      log_once(
          "event times are a lower bound, nothing is measured: the time to issue a launch's instructions or to move "
          "what it touches once over DRAM, and the bytes of copies over PCIe or DRAM");
    *milliseconds = static_cast<float>((end->at_ns - begin->at_ns) * 1e-6);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}

VGPU_PER_THREAD(cuEventRecord, cuEventRecord_ptsz);
VGPU_PER_THREAD(cuEventRecordWithFlags, cuEventRecordWithFlags_ptsz);
VGPU_PER_THREAD(cuLaunchHostFunc, cuLaunchHostFunc_ptsz);
VGPU_PER_THREAD(cuStreamAddCallback, cuStreamAddCallback_ptsz);
VGPU_PER_THREAD(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz);
VGPU_PER_THREAD(cuStreamGetCtx, cuStreamGetCtx_ptsz);
VGPU_PER_THREAD(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz);
VGPU_PER_THREAD(cuStreamGetDevice, cuStreamGetDevice_ptsz);
VGPU_PER_THREAD(cuStreamGetFlags, cuStreamGetFlags_ptsz);
VGPU_PER_THREAD(cuStreamGetId, cuStreamGetId_ptsz);
VGPU_PER_THREAD(cuStreamGetPriority, cuStreamGetPriority_ptsz);
VGPU_PER_THREAD(cuStreamQuery, cuStreamQuery_ptsz);
VGPU_PER_THREAD(cuStreamSynchronize, cuStreamSynchronize_ptsz);
VGPU_PER_THREAD(cuStreamWaitEvent, cuStreamWaitEvent_ptsz);
