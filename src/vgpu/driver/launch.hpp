// A launch: validated as a device would, run, its fault kept, its time put on the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "vgpu/driver/module.hpp"

namespace flashmoe::vgpu::driver {

struct LaunchRequest {
  exec::Dim3 grid{}, block{};
  unsigned dynamic_shared_bytes = 0;
  CUstream stream = nullptr;
  void** parameters = nullptr;
  void** extra = nullptr;
  bool is_cooperative = false;
  std::shared_ptr<const std::vector<std::uint8_t>> gathered{};  // all parameters, of a graph as they were captured
};

// Whether any kernel has run in this process.
[[nodiscard]] bool has_launched();

CUresult launch(State& all, Context& context, Function& function, const LaunchRequest& request);

// How many CTAs of the kernel one SM holds, as far as known: registers count only when ptxas told them, and it is
// started only if `may_compile`.
[[nodiscard]] int resident_ctas(Function& function, const ir::Kernel& kernel, std::int64_t threads,
                                std::int64_t dynamic_bytes, bool may_compile = true);

}  // namespace flashmoe::vgpu::driver
