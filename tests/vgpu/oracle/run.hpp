// The oracle's one entrance.
#pragma once

#include <string>

#include "vgpu/oracle/machine.hpp"

namespace flashmoe::vgpu::oracle {

// Runs the grid on `memory`. Empty: it ended; else why it did not (a bad address, an instruction without a defined
// result, a hang).
[[nodiscard]] std::string run(const ptx::Module& module, const LaunchDescription& launch, GlobalMemory& memory);

}  // namespace flashmoe::vgpu::oracle
