// Stands in for cudart below code that nvcc compiled: the dozen functions such host code calls, on the runtime's
// Driver. The peers plan and launch with their own code; only where the launch goes is ours. (cudart itself would ask
// the driver for tables that are documented nowhere.)
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.hpp"

namespace flashmoe::peers {

struct Launch {
  std::string kernel;  // mangled
  std::array<unsigned, 3> grid{}, block{};
  std::size_t dynamic_shared_bytes = 0;
};

// From now on all calls go to this context. Has to come before the plug-in's first call; null ends it.
void stand_in_for_cudart(std::shared_ptr<runtime::Context> context);

// What was launched since the last call.
[[nodiscard]] std::vector<Launch> take_launches();

// The text of the first call that failed; empty: none did.
[[nodiscard]] std::string first_failure();

}  // namespace flashmoe::peers
