// What the environment gate and the doctor saw, as facts. What could not be learned is unset, and null in a record.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace flashmoe::workflow {

struct CpuFacts {
  std::string model{};
  unsigned cores = 0;
  std::vector<std::string> isa{};  // levels the library has code for, the best last
  bool operator==(const CpuFacts&) const = default;
};

struct CompilerFacts {
  std::optional<std::string> cxx{};
  std::optional<std::string> flashmoe_library{};
  std::optional<std::string> headers{};  // where cudadent/kernel.h is
  bool operator==(const CompilerFacts&) const = default;
};

struct CudaGpuFacts {
  std::string name{};
  std::string architecture{};
  int sm_count = 0;
  bool operator==(const CudaGpuFacts&) const = default;
};

struct CudaFacts {
  std::optional<std::string> toolkit{};
  std::optional<std::string> nvcc{};
  std::optional<std::string> driver_cuda{};  // the CUDA version the driver knows
  std::optional<std::string> kernel_module{};
  std::vector<CudaGpuFacts> gpus{};
  std::optional<std::vector<std::string>> embedded_images{};  // GPU kernels in the library: "PTX", "sm_80"
  bool operator==(const CudaFacts&) const = default;
};

struct CounterFacts {
  std::optional<int> perf_event_paranoid{};
  std::optional<bool> nvidia_profiling_admin_only{};
  bool operator==(const CounterFacts&) const = default;
};

struct ClockFacts {
  std::optional<std::string> governor{};
  std::optional<std::string> clocksource{};
  double load = 0;
  bool operator==(const ClockFacts&) const = default;
};

struct DiskFacts {
  std::string directory{};
  std::optional<double> free_gb{};
  std::optional<bool> writable{};
  bool operator==(const DiskFacts&) const = default;
};

// A Python package as an import in a process of its own found it.
struct PackageFacts {
  bool installed = false;
  std::optional<std::string> directory{};
  std::optional<std::string> version{};
  std::optional<bool> loads{};
  std::optional<std::string> error{};   // why not, as Python says it
  std::optional<std::string> module{};  // the one that was missing
  std::optional<std::string> path{};
  std::optional<std::string> file{};                    // our extension: the module that was loaded
  std::optional<std::vector<std::string>> functions{};  // and what of its interface it has
  std::optional<std::optional<std::string>> cuda{};     // torch: the CUDA it was built for, or none
  bool operator==(const PackageFacts&) const = default;
};

struct PythonFacts {
  std::optional<std::string> version{};
  std::optional<std::string> executable{};
  std::optional<PackageFacts> numpy{};
  std::optional<PackageFacts> extension{};
  std::optional<std::vector<std::string>> flashmoe_owners{};  // who else installs a top-level "flashmoe"
  std::optional<std::string> torch_version{};                 // as its metadata says, without importing it
  bool torch_asked = false;
  std::optional<PackageFacts> torch{};
  bool operator==(const PythonFacts&) const = default;
};

// What was not looked at is unset.
struct EnvironmentFacts {
  static constexpr const char* gate = "environment";
  std::optional<CpuFacts> cpu{};
  std::optional<CompilerFacts> compilers{};
  std::optional<CudaFacts> cuda{};
  std::optional<CounterFacts> counters{};
  std::optional<ClockFacts> clocks{};
  std::optional<DiskFacts> disk{};
  bool python_asked = false;
  std::optional<PythonFacts> python{};
  std::vector<std::string> devices{};  // ids of the GPUs whose limits are known
  std::string device{};                // of a gate run: where it is to run
  std::string device_from{};           // and who said so
  bool operator==(const EnvironmentFacts&) const = default;
};

}  // namespace flashmoe::workflow
