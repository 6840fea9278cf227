// What a driver says of a kernel and its device without running anything: all that is known of a launch on a card whose
// counters are locked.
#pragma once

#include <string>

#include "runtime/device.hpp"

namespace flashmoe::runtime {

struct DeviceFacts {
  std::string name{};  // "NVIDIA L4"
  int sm = 0;          // 89: compute capability 8.9
  int sm_count = 0;
};
[[nodiscard]] Result<DeviceFacts> device_facts(const Context& context);

struct KernelFacts {
  int registers = 0;            // a thread
  int static_shared_bytes = 0;  // a CTA
  int local_bytes = 0;          // a thread: stack and spills
  int max_threads = 0;          // a CTA
  int ctas_per_sm = 0;          // of this geometry
};
[[nodiscard]] Result<KernelFacts> kernel_facts(const Function& function, const Geometry& geometry);

}  // namespace flashmoe::runtime
