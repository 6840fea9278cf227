// The environment in which a program finds the virtual GPU as its CUDA driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

struct ProgramOptions {
  std::string device = "virtual:l4";
  std::string checks = "all";
  std::string report{};
  std::uint64_t seed = 0;
};

// "NAME=value" settings. The driver's directory comes first in LD_LIBRARY_PATH; the empty libnvJitLink beside it is
// preloaded, so that clients which would link into a cubin hand PTX to the driver's linker instead.
[[nodiscard]] Result<std::vector<std::string>> program_environment(const ProgramOptions& options);

}  // namespace flashmoe::workflow
