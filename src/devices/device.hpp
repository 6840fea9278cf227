// GPUs as data, the only list of what they are: the virtual driver's attributes, the counters, the planner, the build
// gate and the printed tables read it. A GPU is one entry of gpus.cpp, an architecture one of architectures.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "devices/fact.hpp"
#include "support/result.hpp"

namespace flashmoe {

// Extents of a launch that every architecture since 3.0 shares (CUDA C++ Programming Guide, technical specifications
// per compute capability; NVIDIA/cccl arch_traits.h).
struct LaunchExtents {
  std::int64_t grid[3];
  std::int64_t block[3];
};
inline constexpr LaunchExtents most_launch_extents{{2147483647, 65535, 65535}, {1024, 1024, 64}};

// Results of one kind that an SM yields in a clock, one a thread: the throughput of native arithmetic instructions as
// the CUDA C++ Best Practices Guide (before CUDA 13 the Programming Guide) tables it.
struct PipeRates {
  Fact fp32_multiply_add{};   // and add, multiply
  Fact fp64_multiply_add{};   // and add, multiply
  Fact int32_add{};           // and subtract
  Fact int32_multiply_add{};  // and multiply
  Fact int32_logic{};         // and, or, xor, shift, compare, minimum, maximum
  Fact transcendental{};      // base-2 exponential and logarithm, reciprocal, reciprocal square root, sine, cosine
  Fact conversion{};          // between integers and floats, and to floats of another size
  Fact shuffle{};
  Fact shared_bytes{};  // not results: what the banks of shared memory move in a clock
};

// One architecture. What enters the toolkit's own occupancy calculation is compared with it by a test.
struct Architecture {
  std::string_view name;  // "sm_89"
  int compute_major = 0;
  int compute_minor = 0;
  int max_warps_per_sm = 0;
  int max_ctas_per_sm = 0;
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_cta_optin = 0;  // dynamic shared memory above the default needs cudaFuncSetAttribute
  int shared_bytes_reserved_per_cta = 1024;
  int shared_bytes_granularity = 128;
  int shared_bytes_per_cta_default = 48 * 1024;  // also the most that may be static
  int l1_and_shared_bytes_per_sm = 0;            // what L1 gets is what shared memory leaves
  int constant_bytes = 64 * 1024;
  int registers_per_sm = 65536;
  int registers_per_cta = 65536;
  int max_registers_per_thread = 255;
  int register_granularity_per_warp = 256;
  int sub_partitions_per_sm = 4;  // each issues one warp instruction a clock
  int max_threads_per_cta = 1024;
  int threads_per_warp = 32;
  int barriers_per_sm = 0;  // named barriers shared by the CTAs of an SM; 0: they never limit
  std::string_view source{};
  PipeRates rates{};

  [[nodiscard]] constexpr int sm() const { return 10 * compute_major + compute_minor; }  // 89
  // Clocks for which an instruction of one warp holds its pipe in a sub-partition: 32 threads over a quarter of what
  // the SM yields.
  [[nodiscard]] constexpr double issue_interval(const Fact& results_per_clock) const {
    return threads_per_warp * sub_partitions_per_sm / results_per_clock.value;
  }
};

struct Gpu {
  std::string_view id;    // "l4", as in virtual:l4 and cuda.device
  std::string_view name;  // "NVIDIA L4", as its driver says it
  std::string_view architecture;
  Fact sm_count{};
  Fact boost_clock_mhz{};   // the highest SM clock, which the driver reports as the device's
  Fact base_clock_mhz{};    // the lowest under load; Nsight Compute locks to it
  Fact tensor_clock_mhz{};  // at which the tensor peak is stated
  Fact memory_clock_mhz{};  // two bits a clock and pin
  Fact memory_bus_bits{};
  Fact dram_gb_per_s{};
  Fact l2_bytes{};
  Fact l2_bytes_per_clock_per_sm{};  // read, while all SMs do
  Fact fp16_tensor_tflops{};         // dense, fp32 accumulation
  Fact mma_sync_clocks{};  // for which mma.sync m16n8k16 with fp32 accumulation holds a sub-partition's tensor pipe
  Fact board_watts{};
  Fact memory_gb{};  // as sold, of 2^30 bytes; a driver keeps a little of it for itself
};

[[nodiscard]] std::span<const Gpu> all_gpus();
[[nodiscard]] std::span<const Architecture> all_architectures();
// The diagnostic lists the names there are.
[[nodiscard]] Result<Gpu> find_gpu(const std::string& id);
[[nodiscard]] Result<Architecture> find_architecture(const std::string& name);

// The facts by name, for those who print them all.
struct GpuFact {
  std::string_view name;
  Fact Gpu::*fact;
};
struct RateFact {
  std::string_view name;
  Fact PipeRates::*fact;
};
[[nodiscard]] std::span<const GpuFact> gpu_facts();
[[nodiscard]] std::span<const RateFact> rate_facts();

}  // namespace flashmoe
