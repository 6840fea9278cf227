#include "current_gpu.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace flashmoe::python {
namespace {

// Of cuda.h, which this build does not need.
using Code = int;
using Context = struct ContextOpaque*;

struct Driver {
  Code (*init)(unsigned flags) = nullptr;
  Code (*device_get)(int* device, int ordinal) = nullptr;
  Code (*primary_retain)(Context* context, int device) = nullptr;
  Code (*get_current)(Context* context) = nullptr;
  Code (*push_current)(Context context) = nullptr;
  Code (*pop_current)(Context* context) = nullptr;
  Code (*error_string)(Code code, const char** text) = nullptr;
  std::string problem;  // empty: all functions are there

  Driver() {
    const char* forced = std::getenv("FLASHMOE_DRIVER");  // the library's own rule
    const char* path = forced != nullptr && *forced != '\0' ? forced : "libcuda.so.1";
    void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      problem = std::string("there is no CUDA driver: ") + dlerror();
      return;
    }
    const auto find = [&](const char* name, auto& function) {
      void* symbol = dlsym(library, name);
      std::memcpy(&function, &symbol, sizeof symbol);
      if (symbol == nullptr) {
        problem = std::string("the CUDA driver ") + path + " has no " + name;
      }
    };
    find("cuInit", init);
    find("cuDeviceGet", device_get);
    find("cuDevicePrimaryCtxRetain", primary_retain);
    find("cuCtxGetCurrent", get_current);
    find("cuCtxPushCurrent_v2", push_current);
    find("cuCtxPopCurrent_v2", pop_current);
    find("cuGetErrorString", error_string);
  }
};

const Driver& driver() {
  static const Driver one;
  return one;
}

bool check(Code code, const char* what, Failure& failure) {
  if (code == 0) {
    return true;
  }
  const char* text = nullptr;
  if (driver().error_string(code, &text) != 0 || text == nullptr) {
    text = "unknown error";
  }
  return fail(failure, FailureKind::kRuntime, std::string(what) + ": " + text);
}

// Held for the life of the process, as torch does.
bool primary_context(int index, Context& context, Failure& failure) {
  static std::array<std::atomic<Context>, kMaxGpus> retained;
  std::atomic<Context>& slot = retained[static_cast<size_t>(index)];
  context = slot.load(std::memory_order_acquire);
  if (context != nullptr) {
    return true;
  }
  int device = 0;
  if (!check(driver().init(0), "cuInit", failure) ||
      !check(driver().device_get(&device, index), "cuDeviceGet", failure) ||
      !check(driver().primary_retain(&context, device), "cuDevicePrimaryCtxRetain", failure)) {
    return false;
  }
  slot.store(context, std::memory_order_release);
  return true;
}

}  // namespace

bool CurrentGpu::set(Place where, Failure& failure) {
  if (where.device == DeviceType::kCpu) {
    return true;
  }
  if (where.device != DeviceType::kCuda || where.index < 0 || where.index >= kMaxGpus) {
    return fail(failure, FailureKind::kNotSupported, "there are kernels for the CPU and for CUDA devices only");
  }
  if (!driver().problem.empty()) {
    return fail(failure, FailureKind::kRuntime, driver().problem);
  }
  Context wanted = nullptr;
  Context current = nullptr;
  if (!primary_context(where.index, wanted, failure) ||
      !check(driver().get_current(&current), "cuCtxGetCurrent", failure)) {
    return false;
  }
  if (current == wanted) {
    return true;
  }
  is_pushed_ = check(driver().push_current(wanted), "cuCtxPushCurrent", failure);
  return is_pushed_;
}

CurrentGpu::~CurrentGpu() {
  if (is_pushed_) {
    Context ignored = nullptr;
    driver().pop_current(&ignored);
  }
}

}  // namespace flashmoe::python
