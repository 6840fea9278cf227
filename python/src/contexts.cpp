#include "contexts.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace flashmoe::python {
namespace {

const fms_context* cpu_context(Failure& failure) {
  struct Created {
    fms_context* context = nullptr;
    fms_error error{};
    Created() {
      if (fms_context_create(nullptr, &context, &error) != FMS_OK) {
        context = nullptr;
      }
    }
  };
  static const Created created;  // never destroyed with the library still in use: it holds no resources of its own
  if (created.context == nullptr) {
    fail_in_library(failure, created.error);
  }
  return created.context;
}

// A failure is not kept: a driver that was not there may come.
const fms_context* cuda_context(int index, Failure& failure) {
  static std::array<std::atomic<fms_context*>, kMaxGpus> made;
  static std::mutex making;
  std::atomic<fms_context*>& slot = made[static_cast<size_t>(index)];
  if (fms_context* context = slot.load(std::memory_order_acquire)) {
    return context;
  }
  const std::lock_guard lock(making);
  fms_context* context = slot.load(std::memory_order_relaxed);
  if (context != nullptr) {
    return context;
  }
  fms_context_options options{};
  options.struct_size = sizeof options;
  options.device_kind = FMS_DEVICE_CUDA;
  options.device_index = index;
  fms_error error;
  if (fms_context_create(&options, &context, &error) != FMS_OK) {
    fail_in_library(failure, error);
    return nullptr;
  }
  slot.store(context, std::memory_order_release);
  return context;
}

}  // namespace

const fms_context* context_at(Place where, Failure& failure) {
  if (where.device == DeviceType::kCpu) {
    return cpu_context(failure);
  }
  if (where.device != DeviceType::kCuda || where.index < 0 || where.index >= kMaxGpus) {
    fail(failure, FailureKind::kNotSupported, "there are kernels for the CPU and for CUDA devices only");
    return nullptr;
  }
  return cuda_context(where.index, failure);
}

}  // namespace flashmoe::python
