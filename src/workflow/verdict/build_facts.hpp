// What the build gate built and read from it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct LibraryFacts {  // one C++ callable
  std::string role{};
  std::string library{};
  std::string sha256{};
  std::string build_hash{};
  std::string compiler{};
  std::map<std::string, std::string> libraries{};  // path -> SHA-256 of what it is linked with
  bool from_cache = false;
  double seconds = 0;
  bool operator==(const LibraryFacts&) const = default;
};

struct CubinFacts {
  std::string source{};
  std::string architecture{};
  std::string sha256{};
  bool from_cache = false;
  double seconds = 0;
  std::size_t kernels = 0;
  bool failed = false;
  bool operator==(const CubinFacts&) const = default;
};

// An instance with the launch geometry of one workload.
struct LaunchFacts {
  std::string workload{};
  std::array<std::int64_t, 3> grid{};
  std::array<std::int64_t, 3> block{};
  std::int64_t dynamic_shared_bytes = 0;
  int ctas_per_sm = 0;
  double occupancy = 0;  // share of the SM's warps
  std::string limiter{};
  std::optional<double> waves{};  // unset: the cubin is for another architecture than the device's
  bool operator==(const LaunchFacts&) const = default;
};

struct InstanceFacts {
  std::string instance{};
  std::string symbol{};
  std::string architecture{};
  int registers = 0;
  std::int64_t static_shared_bytes = 0;
  std::int64_t frame_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  int max_threads = 0;
  int barriers = 0;
  std::int64_t code_bytes = 0;
  std::vector<LaunchFacts> workloads{};
  bool operator==(const InstanceFacts&) const = default;
};

struct CudaBuildFacts {
  std::vector<CubinFacts> cubins{};
  std::vector<InstanceFacts> instances{};
  std::string device{};  // id of the GPU whose limits held; empty: unknown
  bool operator==(const CudaBuildFacts&) const = default;
};

struct BuildFacts {
  static constexpr const char* gate = "build";
  std::optional<std::vector<LibraryFacts>> cpu{};  // unset: no compiler
  std::optional<std::string> cuda_toolkit{};
  std::optional<CudaBuildFacts> cuda{};
  bool operator==(const BuildFacts&) const = default;
};

}  // namespace flashmoe::workflow
