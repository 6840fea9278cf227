#include "vgpu/driver/device_attributes.hpp"

#include <limits>

#include "vgpu/driver/cuda_abi.hpp"

namespace flashmoe::vgpu::driver {
namespace {

std::optional<int> limit(const Machine& machine, int attribute) {
  const Architecture& a = machine.architecture;
  const Gpu& gpu = machine.gpu;
  constexpr const LaunchExtents& most = most_launch_extents;
  const auto whole = [](double value) { return static_cast<int>(value); };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return a.max_threads_per_cta;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return static_cast<int>(most.block[attribute - CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X]);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return static_cast<int>(most.grid[attribute - CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X]);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return a.shared_bytes_per_cta_default;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return a.shared_bytes_per_cta_optin;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return a.shared_bytes_per_sm;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return a.shared_bytes_reserved_per_cta;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
      return a.constant_bytes;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return a.threads_per_warp;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return a.registers_per_cta;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      return a.registers_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return a.max_warps_per_sm * a.threads_per_warp;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return a.max_ctas_per_sm;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return a.compute_major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return a.compute_minor;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
      return whole(a.rates.fp32_multiply_add.value / a.rates.fp64_multiply_add.value);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return whole(gpu.sm_count.value);
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:  // kHz
      return whole(gpu.boost_clock_mhz.value * 1000);
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:  // kHz
      return whole(gpu.memory_clock_mhz.value * 1000);
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return whole(gpu.memory_bus_bits.value);
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return whole(gpu.l2_bytes.value);
    default:
      return std::nullopt;
  }
}

std::optional<int> feature(int attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
      return 1;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return std::numeric_limits<int>::max();
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
      return 1;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
      return attribute == CU_DEVICE_ATTRIBUTE_NUMA_ID ? -1 : 0;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int> device_attribute(const Machine& machine, int attribute) {
  if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return std::nullopt;
  if (const auto value = limit(machine, attribute)) return value;
  return feature(attribute).value_or(0);
}

}  // namespace flashmoe::vgpu::driver
