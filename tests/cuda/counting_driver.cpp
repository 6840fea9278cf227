#include "counting_driver.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "devices/device.hpp"
#include "runtime/cuda_abi.hpp"

namespace {

using namespace flashmoe;
using namespace flashmoe::runtime::cuda;

constexpr Code invalid_value = 1;

// A list of all functions; each joins before main.
class Counter {
 public:
  explicit Counter(const char* name) : name_(name), next_(first) { first = this; }
  void add() { calls_.fetch_add(1, std::memory_order_relaxed); }

  const char* name_;
  Counter* next_;
  std::atomic<std::int64_t> calls_{0};
  static inline Counter* first = nullptr;
};

thread_local std::int64_t launch_time = 0, launch_ctas = 0;
std::atomic<std::uint64_t> next_handle{0x1000};

// Something that is not null and that nobody may look into.
template <class Handle>
Code give(Handle* to) {
  *to = reinterpret_cast<Handle>(next_handle.fetch_add(0x1000));
  return success;
}

// An L4.
Code device_attribute(int* value, DeviceAttribute attribute) {
  static const Gpu gpu = *find_gpu("l4");
  static const Architecture architecture = *find_architecture(std::string(gpu.architecture));
  const auto whole = [&](double number) {
    *value = static_cast<int>(number);
    return success;
  };
  switch (attribute) {
    case DeviceAttribute::max_threads_per_block:
      return whole(architecture.max_threads_per_cta);
    case DeviceAttribute::max_shared_bytes_per_block:
      return whole(architecture.shared_bytes_per_cta_default);
    case DeviceAttribute::multiprocessor_count:
      return whole(gpu.sm_count.value);
    case DeviceAttribute::compute_capability_major:
      return whole(architecture.compute_major);
    case DeviceAttribute::compute_capability_minor:
      return whole(architecture.compute_minor);
    case DeviceAttribute::max_shared_bytes_per_multiprocessor:
      return whole(architecture.shared_bytes_per_sm);
    case DeviceAttribute::max_shared_bytes_per_block_optin:
      return whole(architecture.shared_bytes_per_cta_optin);
    default:  // clocks and L2: a driver need not say them
      return invalid_value;
  }
}

Code function_attribute(int* value, FunctionAttribute attribute) {
  switch (attribute) {
    case FunctionAttribute::max_threads_per_block:
      *value = 1024;
      return success;
    case FunctionAttribute::registers:
      *value = 128;
      return success;
    case FunctionAttribute::shared_bytes:
    case FunctionAttribute::local_bytes:
    case FunctionAttribute::max_dynamic_shared_bytes:
      *value = 0;
      return success;
  }
  return invalid_value;
}

}  // namespace

#define FMS_COUNTED(name, parameters, ...)       \
  namespace {                                    \
  Counter name##_counter{#name};                 \
  }                                              \
  FMS_COUNTING_DRIVER_API Code name parameters { \
    name##_counter.add();                        \
    __VA_ARGS__                                  \
  }

FMS_COUNTED(cuInit, (unsigned), return success;)
FMS_COUNTED(cuDriverGetVersion, (int* version), *version = 13000; return success;)
FMS_COUNTED(cuGetErrorName, (Code, const char** text), *text = "CUDA_ERROR"; return success;)
FMS_COUNTED(cuGetErrorString, (Code, const char** text), *text = "an error of the counting driver"; return success;)
FMS_COUNTED(cuDeviceGetCount, (int* count), *count = 1; return success;)
FMS_COUNTED(cuDeviceGet, (DeviceHandle * device, int ordinal), *device = ordinal; return success;)
FMS_COUNTED(cuDeviceGetName, (char* name, int bytes, DeviceHandle),
            std::snprintf(name, static_cast<std::size_t>(bytes), "counting driver");
            return success;)
FMS_COUNTED(cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, DeviceHandle),
            return device_attribute(value, attribute);)
FMS_COUNTED(cuDevicePrimaryCtxRetain, (ContextHandle * context, DeviceHandle), return give(context);)
FMS_COUNTED(cuDevicePrimaryCtxRelease_v2, (DeviceHandle), return success;)
FMS_COUNTED(cuCtxPushCurrent_v2, (ContextHandle), return success;)
FMS_COUNTED(cuCtxPopCurrent_v2, (ContextHandle * context), *context = nullptr; return success;)
FMS_COUNTED(cuCtxGetCurrent, (ContextHandle * context), *context = nullptr; return success;)
FMS_COUNTED(cuCtxGetDevice, (DeviceHandle * device), *device = 0; return success;)
FMS_COUNTED(cuThreadExchangeStreamCaptureMode, (CaptureMode*), return success;)
FMS_COUNTED(cuCtxSynchronize, (), return success;)
FMS_COUNTED(cuModuleLoadData, (ModuleHandle * module, const void*), return give(module);)
FMS_COUNTED(cuModuleUnload, (ModuleHandle), return success;)
FMS_COUNTED(cuModuleGetFunction, (FunctionHandle * function, ModuleHandle, const char*), return give(function);)
FMS_COUNTED(cuLibraryLoadData, (LibraryHandle * library, const void*, int*, void**, unsigned, int*, void**, unsigned),
            return give(library);)
FMS_COUNTED(cuLibraryUnload, (LibraryHandle), return success;)
FMS_COUNTED(cuLibraryGetKernel, (KernelHandle * kernel, LibraryHandle, const char*), return give(kernel);)
FMS_COUNTED(cuKernelGetFunction, (FunctionHandle * function, KernelHandle), return give(function);)
FMS_COUNTED(cuKernelGetAttribute, (int* value, FunctionAttribute attribute, KernelHandle, DeviceHandle),
            return function_attribute(value, attribute);)
FMS_COUNTED(cuKernelSetAttribute, (FunctionAttribute, int, KernelHandle, DeviceHandle), return success;)
FMS_COUNTED(cuFuncGetAttribute, (int* value, FunctionAttribute attribute, FunctionHandle),
            return function_attribute(value, attribute);)
FMS_COUNTED(cuFuncSetAttribute, (FunctionHandle, FunctionAttribute, int), return success;)
FMS_COUNTED(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, FunctionHandle, int, std::size_t), *blocks = 2;
            return success;)
FMS_COUNTED(cuMemAlloc_v2, (DeviceAddress * address, std::size_t), return give(address);)
FMS_COUNTED(cuMemFree_v2, (DeviceAddress), return success;)
FMS_COUNTED(cuMemcpyHtoD_v2, (DeviceAddress, const void*, std::size_t), return success;)
FMS_COUNTED(cuMemcpyDtoH_v2, (void*, DeviceAddress, std::size_t), return success;)
FMS_COUNTED(cuMemsetD8_v2, (DeviceAddress, unsigned char, std::size_t), return success;)
FMS_COUNTED(cuMemsetD32Async, (DeviceAddress, unsigned, std::size_t, StreamHandle), return success;)
FMS_COUNTED(cuStreamCreate, (StreamHandle * stream, unsigned), return give(stream);)
FMS_COUNTED(cuStreamDestroy_v2, (StreamHandle), return success;)
FMS_COUNTED(cuStreamSynchronize, (StreamHandle), return success;)
FMS_COUNTED(cuLaunchKernel,
            (FunctionHandle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned, unsigned, unsigned, unsigned,
             StreamHandle, void**, void**),
            launch_time = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
            launch_ctas = std::int64_t{grid_x} * grid_y * grid_z; return success;)

std::int64_t counting_driver_calls(const char* function) {
  for (const Counter* at = Counter::first; at != nullptr; at = at->next_)
    if (std::strcmp(at->name_, function) == 0) return at->calls_;
  return -1;
}

std::int64_t counting_driver_all_calls() {
  std::int64_t calls = 0;
  for (const Counter* at = Counter::first; at != nullptr; at = at->next_) calls += at->calls_;
  return calls;
}

void counting_driver_reset() {
  for (Counter* at = Counter::first; at != nullptr; at = at->next_) at->calls_ = 0;
}

std::int64_t counting_driver_launch_time() {
  return launch_time;
}

std::int64_t counting_driver_launch_ctas() {
  return launch_ctas;
}
