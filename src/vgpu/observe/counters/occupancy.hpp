// How many CTAs fit on an SM and in how many waves a grid runs: arithmetic on documented limits, as cuda_occupancy.h
// does it for compute capability 8.0 to 9.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::observe {

struct MachineShape {
  std::string name = "L4";
  std::uint32_t sms = 58;
  std::uint32_t max_warps_per_sm = 48;
  std::uint32_t max_ctas_per_sm = 24;
  std::uint32_t registers_per_sm = 65536;
  std::uint32_t shared_bytes_per_sm = 100u << 10;
  std::uint32_t reserved_shared_bytes_per_cta = 1u << 10;
  std::uint64_t l1_and_shared_bytes_per_sm = 128u << 10;  // what L1 gets is what shared memory leaves
  std::uint64_t l2_bytes = 48u << 20;
};

// What only a compiled image knows; nothing here is ever guessed.
struct ImageFacts {
  std::optional<std::uint32_t> registers_per_thread{};
  std::optional<std::uint32_t> spill_store_bytes{}, spill_load_bytes{};
  std::string source = "unknown";  // "cubin", "ptxas 13.0", "unknown"
};

struct Occupancy {
  std::uint32_t by_warps = 0, by_ctas = 0, by_shared = 0;
  std::optional<std::uint32_t> by_registers{};
  std::uint32_t ctas_per_sm = 0;  // an upper bound when registers are unknown
  std::uint32_t warps_per_cta = 0;
  double percent = 0;  // of the warps an SM can hold
  double waves = 0;
  std::string limiter{};  // "registers", "shared memory", "warps", "blocks"
};

[[nodiscard]] Occupancy occupancy(const MachineShape& machine, const ImageFacts& image, const exec::Dim3& grid,
                                  const exec::Dim3& block, std::uint32_t shared_bytes);

}  // namespace flashmoe::vgpu::observe
