#include "vgpu/observe/counters/machine_shape.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {

MachineShape shape_of(const Gpu& gpu, const Architecture& architecture) {
  return {.name = std::string(gpu.id),
          .sms = static_cast<std::uint32_t>(gpu.sm_count.value),
          .l2_bytes = static_cast<std::uint64_t>(gpu.l2_bytes.value),
          .architecture = architecture};
}

MachineShape l4_shape() {
  const Gpu gpu = *find_gpu("l4");
  return shape_of(gpu, *find_architecture(std::string(gpu.architecture)));
}

LaunchFit launch_fit(const MachineShape& machine, const ImageFacts& image, const exec::Dim3& grid,
                     const exec::Dim3& block, std::uint32_t shared_bytes) {
  LaunchFit fit;
  fit.held =
      occupancy(machine.architecture, {.registers = static_cast<int>(image.registers_per_thread.value_or(0)),
                                       .threads = static_cast<int>(std::min<std::uint64_t>(block.count(), 1U << 20)),
                                       .dynamic_shared_bytes = shared_bytes,
                                       .barriers = static_cast<int>(image.barriers.value_or(1))});
  fit.ctas_at_once = static_cast<double>(fit.held.ctas_per_sm) * machine.sms;
  fit.waves = fit.waves_of(grid.count());
  return fit;
}

}  // namespace flashmoe::vgpu::observe
