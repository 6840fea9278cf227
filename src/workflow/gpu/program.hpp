// The environment in which a program finds the virtual GPU as its CUDA driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gpu/launch_report.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct ProgramOptions {
  std::string device{};  // empty: FLASHMOE_DEVICE, else virtual:l4
  std::string checks = "all";
  std::string report{};  // empty: none
  bool counters = true;  // into the report
  std::uint64_t seed = 0;
  std::string sample{};               // of CTAs that are counted: "64", "5%"; empty: all
  std::string clock = "lower-bound";  // or "predicted": what events tell
};

// How it went, for programs to read.
struct ProgramRun {
  std::string device{};
  std::string clock{};
  std::string outcome{};
  int program_exit_code = 0;
  std::vector<Finding> findings{};
  std::vector<std::string> refused{};  // launches and kernels, each reason once
  std::vector<LaunchReport> launches{};
};

// "NAME=value" settings. The driver's directory comes first in LD_LIBRARY_PATH; libnvJitLink and libcudart beside it
// are preloaded, because wheels of PyPI find their own before that: clients which would link into a cubin hand PTX to
// the driver's linker instead, and the CUDA runtime API stands on the documented driver API. PyCUDA is told to keep
// PTX.
[[nodiscard]] Result<std::vector<std::string>> program_environment(const ProgramOptions& options);
// Where the program finds itself: a virtual GPU, or the diagnostic says why not.
[[nodiscard]] Result<DeviceSelector> program_device(const ProgramOptions& options);

}  // namespace flashmoe::workflow
