// Runs a micro-kernel on the virtual GPU and on the oracle, and compares.
#pragma once

#include <memory>
#include <string>

#include "vgpu/memory/device_memory.hpp"
#include "vgpu/micro/micro_kernel.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::micro {

class Bench {
 public:
  Bench();
  ~Bench();
  // Empty: both agree. Else what went wrong, with the first difference.
  [[nodiscard]] std::string judge(const MicroKernel& kernel);
  // What ended the grid on the virtual GPU; empty: nothing did.
  [[nodiscard]] std::string fault(const MicroKernel& kernel);

 private:
  struct Run {
    std::string problem{};
    std::vector<std::uint8_t> output{};
  };
  Run on_virtual_gpu(const MicroKernel& kernel, const ptx::Module& module);
  Run on_oracle(const MicroKernel& kernel, const ptx::Module& module, bool magnitudes);
  std::vector<std::uint8_t> parameters(const MicroKernel& kernel) const;

  std::unique_ptr<memory::DeviceMemory> memory_;
  std::uint64_t input_ = 0, output_ = 0, table_ = 0;
};

}  // namespace flashmoe::vgpu::micro
