#include "vgpu/driver/state.hpp"

#include <algorithm>
#include <list>
#include <mutex>
#include <new>

#include "vgpu/driver/forked.hpp"
#include "vgpu/driver/graph.hpp"
#include "vgpu/driver/link.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/module.hpp"
#include "vgpu/driver/watch.hpp"

namespace flashmoe::vgpu::driver {

State::State() = default;
State::~State() = default;

State& state() {
  // Never destroyed, nor is anything else that is static here: other libraries call the driver while the process ends.
  static State* const one = new State;
  return *one;
}

std::vector<Context*>& context_stack() {
  // Nor these: at the end of a process the driver is still called when the thread's own objects are gone.
  thread_local std::vector<Context*>* mine = nullptr;
  if (mine == nullptr) {
    static auto* const mutex = new std::mutex;
    static auto* const stacks = new std::list<std::vector<Context*>>;
    const std::lock_guard lock(*mutex);
    mine = &stacks->emplace_back();
  }
  return *mine;
}

Context* current_context() {
  auto& stack = context_stack();
  return stack.empty() ? nullptr : state().contexts.find(stack.back());
}

CaptureMode& thread_capture_mode() {
  thread_local CaptureMode mine = CaptureMode::global;
  return mine;
}

void State::for_each_stream(const std::function<void(Stream&)>& body) {
  for (const auto& [handle, stream] : streams) body(*stream);
  for (const auto& [handle, context] : contexts)
    for (auto& [thread, stream] : context->per_thread) body(stream);
}

CUresult State::refuse_while_capturing() {
  const CaptureMode mine = thread_capture_mode();
  if (mine == CaptureMode::relaxed) return CUDA_SUCCESS;
  bool is_refused = false;
  for_each_stream([&](Stream& stream) {
    if (stream.capture == nullptr) return;
    const bool is_own = stream.capture_thread == std::this_thread::get_id();
    const bool disturbs = is_own ? stream.capture_mode != CaptureMode::relaxed
                                 : mine == CaptureMode::global && stream.capture_mode == CaptureMode::global;
    if (!disturbs) return;
    stream.is_capture_broken = true;
    is_refused = true;
  });
  return is_refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

Stream* State::stream(CUstream handle, Context& context) {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value <= 1) return &context.legacy;  // 0 and CU_STREAM_LEGACY
  if (value == 2) {                        // CU_STREAM_PER_THREAD
    Stream& own = context.per_thread[std::this_thread::get_id()];
    own.context = &context;
    return &own;
  }
  return streams.find(handle);
}

double State::start_ns(const Stream& stream) const {
  double start = stream.ready_ns;
  if (!stream.is_blocking) return start;
  start = std::max(start, stream.context->legacy.ready_ns);
  if (!stream.is_legacy) return start;
  for (const auto& [handle, other] : streams)
    if (other->context == stream.context && other->is_blocking) start = std::max(start, other->ready_ns);
  for (const auto& [thread, other] : stream.context->per_thread) start = std::max(start, other.ready_ns);
  return start;
}

void State::empty(Context& context) {
  const auto is_its = [&](const auto& object) { return object.context == &context; };
  modules.remove_if(is_its);
  streams.remove_if(is_its);
  events.remove_if(is_its);
  arrays.remove_if(is_its);
  graphs.remove_if(is_its);
  graph_execs.remove_if(is_its);
  std::size_t leaked = 0;
  std::uint64_t bytes = 0;
  for (auto at = allocations.begin(); at != allocations.end();) {
    if (at->second.context != &context) {
      ++at;
      continue;
    }
    ++leaked;
    bytes += at->second.bytes;
    static_cast<void>(machine->memory->free(at->first));
    at = allocations.erase(at);
  }
  // After a fault nobody could free anything.
  if (leaked != 0 && machine->watching.memcheck && context.sticky == CUDA_SUCCESS) report_leaks(leaked, bytes);
}

namespace {

// A C caller cannot catch; what ran out is said by name.
CUresult guarded(const char* function, const std::function<CUresult()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    log_line(std::string(function) + ": " + error.what());
    return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace

CUresult with_driver(const char* function, const std::function<CUresult(State&)>& body) {
  log_call(function);
  if (is_refused_child()) return CUDA_ERROR_NOT_INITIALIZED;  // before the lock, which a thread of the parent may hold
  State& all = state();
  const std::lock_guard lock(all.mutex);
  if (all.machine == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  return guarded(function, [&] { return body(all); });
}

CUresult with_context(const char* function, const std::function<CUresult(State&, Context&)>& body) {
  return with_driver(function, [&](State& all) -> CUresult {
    Context* const context = current_context();
    if (context == nullptr)
      return context_stack().empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context->sticky != CUDA_SUCCESS) return context->sticky;
    return body(all, *context);
  });
}

}  // namespace flashmoe::vgpu::driver
