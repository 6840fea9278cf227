// Module-scope .global and .const variables: where they lie and what they hold at first.
#pragma once

#include <functional>
#include <string_view>

#include "vgpu/driver/module.hpp"

namespace flashmoe::vgpu::driver {

[[nodiscard]] Result<Done> place_globals(Module& module,
                                         const std::function<std::uint64_t(std::string_view)>& function_address);

}  // namespace flashmoe::vgpu::driver
