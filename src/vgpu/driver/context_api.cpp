// Contexts: the primary one, others, and each thread's stack of them.
#include <algorithm>

#include "vgpu/driver/leftovers.hpp"
#include "vgpu/driver/log.hpp"
#include "vgpu/driver/state.hpp"
#include "vgpu/ir/layout.hpp"

using namespace flashmoe::vgpu::driver;

namespace {

// Defaults of cuCtxGetLimit on a device; the heap's is in the CUDA C++ Programming Guide (dynamic global memory).
constexpr std::size_t default_stack_bytes = 1024;
constexpr std::size_t default_printf_bytes = 1 << 20;

void set_default_limits(State& all, Context& context) {
  context.limits = {{CU_LIMIT_STACK_SIZE, default_stack_bytes},
                    {CU_LIMIT_PRINTF_FIFO_SIZE, default_printf_bytes},
                    {CU_LIMIT_MALLOC_HEAP_SIZE, flashmoe::vgpu::exec::Heap::default_bytes},
                    {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                    {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
  context.limits_in_use.clear();
  context.heap = std::make_unique<flashmoe::vgpu::exec::Heap>(*all.machine->memory);
}

Context* make_context(State& all, CUdevice device, unsigned flags, bool is_primary) {
  auto made = std::make_unique<Context>();
  made->id = all.next_id++;
  made->device = device;
  made->flags = flags;
  made->is_primary = is_primary;
  Context* const context = all.contexts.add(std::move(made));
  context->legacy.context = context;
  context->legacy.is_legacy = true;
  set_default_limits(all, *context);
  return context;
}

void drop_context(State& all, Context* context) {
  all.empty(*context);
  all.contexts.remove(context);
}

}  // namespace

VGPU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  return with_driver("cuDevicePrimaryCtxRetain", [&](State& all) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    auto& [primary, flags] = all.primaries[static_cast<std::size_t>(device)];
    if (primary == nullptr) primary = make_context(all, device, flags, true);
    ++primary->references;
    *out = handle_of<CUcontext>(primary);
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return with_driver("cuDevicePrimaryCtxReset", [&](State& all) {
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context* const primary = all.primaries[static_cast<std::size_t>(device)].context;
    if (primary == nullptr) return CUDA_SUCCESS;
    // The handle stays what it is; everything in it, and a fault, is gone.
    all.empty(*primary);
    primary->sticky = CUDA_SUCCESS;
    primary->per_thread.clear();
    set_default_limits(all, *primary);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

VGPU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return with_driver("cuDevicePrimaryCtxRelease", [&](State& all) {
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context*& primary = all.primaries[static_cast<std::size_t>(device)].context;
    if (primary == nullptr || primary->references == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary->references == 0) drop_context(all, std::exchange(primary, nullptr));
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

VGPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  return with_driver("cuDevicePrimaryCtxSetFlags", [&](State& all) {
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    if ((flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) != 0) return CUDA_ERROR_INVALID_VALUE;
    State::Primary& primary = all.primaries[static_cast<std::size_t>(device)];
    primary.flags = flags;
    if (primary.context != nullptr) primary.context->flags = flags;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  return with_driver("cuDevicePrimaryCtxGetState", [&](State& all) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    const State::Primary& primary = all.primaries[static_cast<std::size_t>(device)];
    *flags = primary.flags;
    *active = primary.context != nullptr ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned flags, CUdevice device) {
  return with_driver("cuCtxCreate", [&](State& all) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!all.has(device)) return CUDA_ERROR_INVALID_DEVICE;
    Context* const context = make_context(all, device, flags, false);
    context_stack().push_back(context);
    *out = handle_of<CUcontext>(context);
    return CUDA_SUCCESS;
  });
}

// CUctxCreateParams: nothing in it that we would have to honour is a plain context.
struct ContextParameters {
  void* affinities;
  int affinity_count;
  void* graphics;
};

VGPU_EXPORT CUresult cuCtxCreate_v4(CUcontext* out, ContextParameters* parameters, unsigned flags, CUdevice device) {
  if (parameters != nullptr && (parameters->affinity_count != 0 || parameters->graphics != nullptr)) {
    log_once("cuCtxCreate with execution affinity or CIG parameters: CUDA_ERROR_NOT_SUPPORTED");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return cuCtxCreate_v2(out, flags, device);
}

namespace {

CUresult destroy(State& all, Context* context) {
  if (context == nullptr || context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  drop_context(all, context);
  return CUDA_SUCCESS;
}

}  // namespace

VGPU_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  return with_driver("cuCtxDestroy", [&](State& all) { return destroy(all, all.contexts.find(handle)); });
}

// Counting the users of a context, deprecated: the last one to leave destroys it.
VGPU_EXPORT CUresult cuCtxAttach(CUcontext* out, unsigned flags) {
  return with_context("cuCtxAttach", [&](State&, Context& context) {
    if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    ++context.attachments;
    *out = handle_of<CUcontext>(&context);
    return CUDA_SUCCESS;
  });
}
VGPU_EXPORT CUresult cuCtxDetach(CUcontext handle) {
  return with_driver("cuCtxDetach", [&](State& all) {
    Context* const context = all.contexts.find(handle);
    if (context == nullptr || context != current_context()) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->is_primary && context->attachments == 1) return CUDA_ERROR_INVALID_CONTEXT;  // never attached to
    return --context->attachments == 0 ? destroy(all, context) : CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  return with_driver("cuCtxPushCurrent", [&](State& all) {
    Context* const context = all.contexts.find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    context_stack().push_back(context);
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  return with_driver("cuCtxPopCurrent", [&](State&) {
    auto& stack = context_stack();
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (out != nullptr) *out = handle_of<CUcontext>(stack.back());
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  return with_driver("cuCtxSetCurrent", [&](State& all) {
    auto& stack = context_stack();
    if (handle == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return CUDA_SUCCESS;
    }
    Context* const context = all.contexts.find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.empty())
      stack.push_back(context);
    else
      stack.back() = context;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
  return with_driver("cuCtxGetCurrent", [&](State&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of<CUcontext>(current_context());
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return with_driver("cuCtxGetDevice", [&](State&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Context* const current = current_context();
    if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = current->device;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  return with_driver("cuCtxGetDevice", [&](State& all) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Context* const context = handle != nullptr ? all.contexts.find(handle) : current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetFlags(unsigned* flags) {
  return with_context("cuCtxGetFlags", [&](State&, Context& context) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = context.flags;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  return with_driver("cuCtxGetId", [&](State& all) {
    const Context* const context = handle == nullptr ? current_context() : all.contexts.find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = context->id;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  return with_driver("cuCtxGetApiVersion", [&](State& all) {
    if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (handle != nullptr && all.contexts.find(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *version = 3020;  // of cuCtxCreate_v2
    return CUDA_SUCCESS;
  });
}

// Everything is done when it was asked for; a fault of it comes out here.
VGPU_EXPORT CUresult cuCtxSynchronize() {
  return with_context("cuCtxSynchronize", [](State& all, const Context& context) {
    if (const CUresult refused = all.refuse_while_capturing(); refused != CUDA_SUCCESS) return refused;
    call_ends(all, context);
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  return with_driver("cuCtxSynchronize", [&](State& all) {
    const Context* const context = handle == nullptr ? current_context() : all.contexts.find(handle);
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (context->sticky == CUDA_SUCCESS) call_ends(all, *context);
    return context->sticky;
  });
}

VGPU_EXPORT CUresult cuCtxGetLimit(std::size_t* value, int limit) {
  return with_context("cuCtxGetLimit", [&](State&, Context& context) {
    const auto found = context.limits.find(limit);
    if (found == context.limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *value = found->second;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxSetLimit(int limit, std::size_t value) {
  return with_context("cuCtxSetLimit", [&](State& all, Context& context) {
    const auto found = context.limits.find(limit);
    if (found == context.limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (context.limits_in_use.contains(limit)) {
      log_line("cuCtxSetLimit: too late, a kernel that uses malloc, free or printf was launched (fix: set it before)");
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (limit == CU_LIMIT_STACK_SIZE && value > flashmoe::vgpu::ir::kMostLocalBytes) return CUDA_ERROR_INVALID_VALUE;
    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
      if (value > all.machine->memory_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
      context.heap->resize(value);
    }
    found->second = value;
    return CUDA_SUCCESS;
  });
}

VGPU_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return with_context("cuCtxGetStreamPriorityRange", [&](State&, Context&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return CUDA_SUCCESS;
  });
}

// Preferences about caches change nothing here.
VGPU_EXPORT CUresult cuCtxSetCacheConfig(int /*preference*/) {
  return with_context("cuCtxSetCacheConfig", [](State&, Context&) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuCtxGetCacheConfig(int* preference) {
  return with_context("cuCtxGetCacheConfig", [&](State&, Context&) {
    if (preference == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *preference = 0;
    return CUDA_SUCCESS;
  });
}

// Profilers have nothing to switch on: VGPU_REPORT does.
VGPU_EXPORT CUresult cuProfilerStart() {
  return with_context("cuProfilerStart", [](State&, Context&) { return CUDA_SUCCESS; });
}
VGPU_EXPORT CUresult cuProfilerStop() {
  return with_context("cuProfilerStop", [](State&, Context&) { return CUDA_SUCCESS; });
}
