// GPUs as data: what the build gate may know about a card that is not here. Every value carries where it comes from; a
// value nobody could check has no source and is printed as "unverified".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "support/result.hpp"

namespace flashmoe {

struct Fact {
  double value = 0;
  std::string_view source{};  // empty: unverified
  [[nodiscard]] bool verified() const { return !source.empty(); }
};

// Limits of one architecture. All of them enter the toolkit's own occupancy calculation, and a test compares the two.
struct ArchitectureLimits {
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
  int registers_per_sm = 65536;
  int registers_per_cta = 65536;
  int max_registers_per_thread = 255;
  int register_granularity_per_warp = 256;
  int sub_partitions_per_sm = 4;
  int max_threads_per_cta = 1024;
  int threads_per_warp = 32;
  int barriers_per_sm = 0;  // named barriers shared by the CTAs of an SM; 0: they never limit
  std::string_view source{};
};

struct Gpu {
  std::string_view id;    // "l4", as in virtual:l4 and cuda.device
  std::string_view name;  // "NVIDIA L4"
  std::string_view architecture;
  Fact sm_count;
  Fact boost_clock_mhz;
  Fact dram_gb_per_s;
  Fact l2_mb;
  Fact fp16_tensor_tflops;  // dense, fp32 accumulation
  Fact board_watts;
  Fact memory_gb;  // as sold, of 2^30 bytes; a driver keeps a little of it for itself
  Fact memory_bus_bits;
};

[[nodiscard]] std::span<const Gpu> all_gpus();
[[nodiscard]] std::span<const ArchitectureLimits> all_architectures();
// The diagnostic lists the names there are.
[[nodiscard]] Result<Gpu> find_gpu(const std::string& id);
[[nodiscard]] Result<ArchitectureLimits> find_architecture(const std::string& name);
[[nodiscard]] nlohmann::ordered_json to_json(const Gpu& gpu);

struct KernelResources {
  int registers = 0;  // per thread
  int threads = 1;    // per CTA
  std::int64_t static_shared_bytes = 0;
  std::int64_t dynamic_shared_bytes = 0;
  int barriers = 1;
};

struct Occupancy {
  int ctas_per_sm = 0;
  int warps_per_sm = 0;
  double share_of_warps = 0;  // 0..1
  std::string limiter{};      // "shared memory: 52 KB of 100 KB per CTA"; why not one CTA more
};

// How many CTAs of this kernel one SM holds; 0 with the reason when it cannot be launched at all.
[[nodiscard]] Occupancy occupancy(const ArchitectureLimits& limits, const KernelResources& kernel);

}  // namespace flashmoe
