// What counting needs to know of the GPU and of the image that runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "devices/device.hpp"
#include "devices/occupancy.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::observe {

struct MachineShape {
  std::string name{};
  std::uint32_t sms = 0;
  std::uint64_t l2_bytes = 0;
  Architecture architecture{};
};

[[nodiscard]] MachineShape shape_of(const Gpu& gpu, const Architecture& architecture);
[[nodiscard]] MachineShape l4_shape();  // what a watch takes that is told nothing

// What only a compiled image knows; nothing here is ever guessed.
struct ImageFacts {
  std::optional<std::uint32_t> registers_per_thread{};
  std::optional<std::uint32_t> barriers{};
  std::optional<std::uint32_t> spill_store_bytes{}, spill_load_bytes{};
  std::string source = "unknown";  // "cubin", "ptxas 13.0", "unknown"
};

// How many CTAs fit on an SM, an upper bound when registers are unknown, and in how many waves a grid runs.
struct LaunchFit {
  Occupancy held{};
  double waves = 0;  // of all its CTAs, whatever they do
  double ctas_at_once = 0;
  [[nodiscard]] double waves_of(std::uint64_t ctas) const {
    return ctas_at_once > 0 ? static_cast<double>(ctas) / ctas_at_once : 0;
  }
};

[[nodiscard]] LaunchFit launch_fit(const MachineShape& machine, const ImageFacts& image, const exec::Dim3& grid,
                                   const exec::Dim3& block, std::uint32_t shared_bytes);

}  // namespace flashmoe::vgpu::observe
