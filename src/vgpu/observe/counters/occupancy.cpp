#include "vgpu/observe/counters/occupancy.hpp"

#include <algorithm>

namespace flashmoe::vgpu::observe {
namespace {

constexpr std::uint32_t register_unit = 256;       // registers are given to a warp in units of this
constexpr std::uint32_t scheduler_partitions = 4;  // each with a quarter of the registers
constexpr std::uint32_t shared_unit = 128;

constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

Occupancy occupancy(const MachineShape& machine, const ImageFacts& image, const exec::Dim3& grid,
                    const exec::Dim3& block, std::uint32_t shared_bytes) {
  Occupancy result;
  result.warps_per_cta = static_cast<std::uint32_t>((block.count() + 31) / 32);
  if (result.warps_per_cta == 0) return result;
  result.by_warps = machine.max_warps_per_sm / result.warps_per_cta;
  result.by_ctas = machine.max_ctas_per_sm;
  const std::uint32_t shared = round_up(shared_bytes + machine.reserved_shared_bytes_per_cta, shared_unit);
  result.by_shared = shared == 0 ? machine.max_ctas_per_sm : machine.shared_bytes_per_sm / shared;
  if (image.registers_per_thread && *image.registers_per_thread > 0) {
    const std::uint32_t per_warp = round_up(*image.registers_per_thread * 32, register_unit);
    const std::uint32_t warps = machine.registers_per_sm / scheduler_partitions / per_warp * scheduler_partitions;
    result.by_registers = warps / result.warps_per_cta;
  }

  result.ctas_per_sm = result.by_warps;
  result.limiter = "warps";
  const auto limit = [&](std::uint32_t ctas, const char* name) {
    if (ctas < result.ctas_per_sm) {
      result.ctas_per_sm = ctas;
      result.limiter = name;
    }
  };
  limit(result.by_ctas, "blocks");
  limit(result.by_shared, "shared memory");
  if (result.by_registers) limit(*result.by_registers, "registers");
  result.percent = 100.0 * result.ctas_per_sm * result.warps_per_cta / machine.max_warps_per_sm;
  const double at_once = static_cast<double>(result.ctas_per_sm) * machine.sms;
  if (at_once > 0) result.waves = static_cast<double>(grid.count()) / at_once;
  return result;
}

}  // namespace flashmoe::vgpu::observe
