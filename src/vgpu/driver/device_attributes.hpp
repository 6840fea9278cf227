// What cuDeviceGetAttribute answers.
#pragma once

#include <optional>

#include "vgpu/driver/machine.hpp"

namespace flashmoe::vgpu::driver {

// Nothing: no attribute of that number. Features that are not there (textures, IPC, interop) and sizes that come with
// them are 0.
[[nodiscard]] std::optional<int> device_attribute(const Machine& machine, int attribute);

}  // namespace flashmoe::vgpu::driver
