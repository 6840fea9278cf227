#include "failing_driver.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "images/fatbin.hpp"
#include "runtime/cuda_abi.hpp"

namespace {

using namespace flashmoe::runtime::cuda;

constexpr auto a_while = std::chrono::milliseconds(20);
constexpr int most_functions = 64;

struct Order {
  const char* function = "";
  Mischief mischief = Mischief::none;
  int first = 0, count = 0, followed = 0;
};

constexpr int most_orders = 4;

std::mutex mutex;
Order orders[most_orders];
int order_count = 0;
const char* called[most_functions];
int called_count = 0;
int pretended_version = 0;  // 0: the truth
int cubins = 0;

void look_at(const void* image) {
  const auto* const bytes = static_cast<const std::byte*>(image);
  const auto length = flashmoe::fatbin_length({bytes, flashmoe::fatbin_header_bytes});
  if (!length) return;  // no fatbin
  const auto entries = flashmoe::read_fatbin({bytes, *length});
  const std::lock_guard lock(mutex);
  for (const flashmoe::FatbinEntry& entry : *entries)
    if (entry.kind == flashmoe::FatbinEntry::Kind::cubin) ++cubins;
}

Mischief mischief_of(const char* function) {
  const std::lock_guard lock(mutex);
  bool is_known = false;
  for (int i = 0; i < called_count; ++i) is_known = is_known || std::strcmp(called[i], function) == 0;
  if (!is_known && called_count < most_functions) called[called_count++] = function;
  for (Order& order : orders) {
    if (std::strcmp(order.function, function) != 0) continue;
    if (order.first > 0) {
      --order.first;
    } else if (order.count > 0) {
      --order.count;
      ++order.followed;
      return order.mischief;
    }
  }
  return Mischief::none;
}

template <class... Arguments>
Code pass_on(const char* name, Arguments... arguments) {
  static void* const real = dlopen(std::getenv("FLASHMOE_TEST_DRIVER"), RTLD_NOW | RTLD_LOCAL);
  void* const symbol = real == nullptr ? nullptr : dlsym(real, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "failing_driver: FLASHMOE_TEST_DRIVER has no %s\n", name);
    std::abort();
  }
  return reinterpret_cast<Code (*)(Arguments...)>(symbol)(arguments...);
}

// `lie` gets the mischief and falsifies what was given back.
template <class Lie, class... Arguments>
Code behave(const char* name, Lie lie, Arguments... arguments) {
  const Mischief mischief = mischief_of(name);
  if (mischief == Mischief::refuse) return unknown_error;
  if (mischief == Mischief::out_of_memory) return out_of_memory;
  if (mischief == Mischief::late) std::this_thread::sleep_for(a_while);
  const Code code = pass_on(name, arguments...);
  if (mischief == Mischief::too_small || mischief == Mischief::too_large) lie(mischief == Mischief::too_large);
  return code;
}

constexpr auto no_lie = [](bool) {};

}  // namespace

void failing_driver_misbehave(const char* function, Mischief mischief, int first, int count) {
  const std::lock_guard lock(mutex);
  if (order_count < most_orders) orders[order_count++] = {function, mischief, first, count};
}

void failing_driver_behave() {
  const std::lock_guard lock(mutex);
  for (Order& order : orders) order = {};
  order_count = 0;
}

void failing_driver_pretend(int version) {
  pretended_version = version;
}

int failing_driver_cubins() {
  const std::lock_guard lock(mutex);
  return cubins;
}

int failing_driver_called(const char** names, int capacity) {
  const std::lock_guard lock(mutex);
  for (int i = 0; i < called_count && i < capacity; ++i) names[i] = called[i];
  return called_count;
}

int failing_driver_followed() {
  const std::lock_guard lock(mutex);
  return orders[0].followed;
}

#define FMS_PASSED(name, parameters, lie, ...)            \
  FMS_FAILING_DRIVER_API Code name parameters {           \
    return behave(#name, lie __VA_OPT__(, ) __VA_ARGS__); \
  }

FMS_PASSED(cuInit, (unsigned flags), no_lie, flags)
FMS_FAILING_DRIVER_API Code cuDriverGetVersion(int* version) {
  const auto lie = [=](bool is_large) { *version = is_large ? 99000 : 0; };
  const Code code = behave("cuDriverGetVersion", lie, version);
  if (pretended_version != 0) *version = pretended_version;
  return code;
}
FMS_PASSED(
    cuGetErrorName, (Code code, const char** text), [=](bool) { *text = nullptr; }, code, text)
FMS_PASSED(
    cuGetErrorString, (Code code, const char** text), [=](bool) { *text = nullptr; }, code, text)
FMS_PASSED(
    cuDeviceGetCount, (int* count), [=](bool is_large) { *count = is_large ? 1 << 20 : -1; }, count)
FMS_PASSED(
    cuDeviceGet, (DeviceHandle * device, int ordinal), [=](bool is_large) { *device = is_large ? 1 << 20 : -1; },
    device, ordinal)
// Without a zero at its end.
FMS_PASSED(
    cuDeviceGetName, (char* name, int bytes, DeviceHandle device),
    [=](bool) { std::memset(name, 'x', static_cast<std::size_t>(bytes)); }, name, bytes, device)
FMS_PASSED(
    cuDeviceGetAttribute, (int* value, DeviceAttribute attribute, DeviceHandle device),
    [=](bool is_large) { *value = is_large ? 1 << 30 : -1; }, value, attribute, device)
FMS_PASSED(
    cuDevicePrimaryCtxRetain, (ContextHandle * context, DeviceHandle device), [=](bool) { *context = nullptr; },
    context, device)
FMS_PASSED(cuDevicePrimaryCtxRelease_v2, (DeviceHandle device), no_lie, device)
FMS_PASSED(cuCtxPushCurrent_v2, (ContextHandle context), no_lie, context)
FMS_PASSED(
    cuCtxPopCurrent_v2, (ContextHandle * context), [=](bool) { *context = nullptr; }, context)
FMS_PASSED(
    cuCtxGetCurrent, (ContextHandle * context), [=](bool) { *context = nullptr; }, context)
FMS_PASSED(
    cuCtxGetDevice, (DeviceHandle * device), [=](bool is_large) { *device = is_large ? 1 << 20 : -1; }, device)
FMS_FAILING_DRIVER_API Code cuLibraryLoadData(LibraryHandle* library, const void* image, int* jit_options,
                                              void** jit_values, unsigned jit_count, int* options, void** values,
                                              unsigned count) {
  look_at(image);
  return behave(
      "cuLibraryLoadData", [=](bool) { *library = nullptr; }, library, image, jit_options, jit_values, jit_count,
      options, values, count);
}
FMS_PASSED(cuLibraryUnload, (LibraryHandle library), no_lie, library)
FMS_PASSED(
    cuLibraryGetKernel, (KernelHandle * kernel, LibraryHandle library, const char* name),
    [=](bool) { *kernel = nullptr; }, kernel, library, name)
FMS_PASSED(cuKernelSetAttribute, (FunctionAttribute attribute, int value, KernelHandle kernel, DeviceHandle device),
           no_lie, attribute, value, kernel, device)
FMS_PASSED(
    cuOccupancyMaxActiveBlocksPerMultiprocessor,
    (int* blocks, FunctionHandle function, int block_threads, std::size_t dynamic_shared_bytes),
    [=](bool is_large) { *blocks = is_large ? 1 << 20 : 0; }, blocks, function, block_threads, dynamic_shared_bytes)
FMS_PASSED(cuMemsetD32Async, (DeviceAddress to, unsigned value, std::size_t count, StreamHandle stream), no_lie, to,
           value, count, stream)
FMS_PASSED(cuLaunchKernel,
           (FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
            unsigned block_y, unsigned block_z, unsigned dynamic_shared_bytes, StreamHandle stream, void** parameters,
            void** extra),
           no_lie, function, grid_x, grid_y, grid_z, block_x, block_y, block_z, dynamic_shared_bytes, stream,
           parameters, extra)
FMS_PASSED(
    cuThreadExchangeStreamCaptureMode, (CaptureMode * mode),
    [=](bool is_large) { *mode = static_cast<CaptureMode>(is_large ? 1 << 20 : -1); }, mode)
// The library finds these, and calls none of them.
FMS_PASSED(cuCtxSynchronize, (), no_lie)
FMS_PASSED(cuModuleLoadData, (ModuleHandle * module, const void* image), no_lie, module, image)
FMS_PASSED(cuModuleUnload, (ModuleHandle module), no_lie, module)
FMS_PASSED(cuModuleGetFunction, (FunctionHandle * function, ModuleHandle module, const char* name), no_lie, function,
           module, name)
FMS_PASSED(cuFuncGetAttribute, (int* value, FunctionAttribute attribute, FunctionHandle function), no_lie, value,
           attribute, function)
FMS_PASSED(cuFuncSetAttribute, (FunctionHandle function, FunctionAttribute attribute, int value), no_lie, function,
           attribute, value)
FMS_PASSED(cuMemAlloc_v2, (DeviceAddress * address, std::size_t bytes), no_lie, address, bytes)
FMS_PASSED(cuMemFree_v2, (DeviceAddress address), no_lie, address)
FMS_PASSED(cuMemcpyHtoD_v2, (DeviceAddress to, const void* from, std::size_t bytes), no_lie, to, from, bytes)
FMS_PASSED(cuMemcpyDtoH_v2, (void* to, DeviceAddress from, std::size_t bytes), no_lie, to, from, bytes)
FMS_PASSED(cuMemsetD8_v2, (DeviceAddress to, unsigned char value, std::size_t count), no_lie, to, value, count)
FMS_PASSED(cuStreamCreate, (StreamHandle * stream, unsigned flags), no_lie, stream, flags)
FMS_PASSED(cuStreamDestroy_v2, (StreamHandle stream), no_lie, stream)
FMS_PASSED(cuStreamSynchronize, (StreamHandle stream), no_lie, stream)
