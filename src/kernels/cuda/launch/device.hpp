// A GPU as the library uses it: the caller's context and stream, kernels loaded once.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "flashmoe/flashmoe.h"
#include "plan/planner.hpp"
#include "runtime/driver.hpp"

namespace flashmoe::cuda {

class Device {
 public:
  // The driver is FLASHMOE_DRIVER (a path), else the system's.
  [[nodiscard]] static fms_status open(int ordinal, std::unique_ptr<Device>& device, fms_error* error);

  [[nodiscard]] plan::DeviceCaps caps() const;
  // Queues the kernel on the stream, in the context that is current. Nothing is allocated and nothing is asked of the
  // driver but the launch; the first run of a kernel loads it.
  [[nodiscard]] fms_status run(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace,
                               fms_stream stream, fms_error* error) const;

 private:
  static constexpr std::size_t most_instances = 80;

  [[nodiscard]] fms_status load(std::size_t instance, runtime::cuda::KernelHandle& kernel, fms_error* error) const;
  [[nodiscard]] fms_status failed(runtime::cuda::Code code, const char* what, fms_error* error) const;

  std::shared_ptr<const runtime::Driver> driver_{};
  runtime::cuda::DeviceHandle handle_ = 0;
  int sm_count_ = 0, architecture_ = 0;
  mutable std::mutex loading_{};
  mutable std::array<std::atomic<runtime::cuda::KernelHandle>, most_instances> kernels_{};
};

}  // namespace flashmoe::cuda
