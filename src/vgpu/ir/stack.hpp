// The stack of a thread. Its frames are a model: a return address and what is saved beside it (16 bytes), the .local
// variables and the parameters. ptxas 13.0 (sm_89) gave three recursive functions 24, 40 and 152 bytes, this gives 24,
// 32 and 152.
#pragma once

#include <cstdint>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::ir {

[[nodiscard]] std::uint32_t stack_bytes_of(const Function& function, bool is_entry);

// Of the deepest chain of calls in which no function stands twice: what a driver can know before a launch.
[[nodiscard]] std::uint32_t known_stack_bytes(const Kernel& kernel);

}  // namespace flashmoe::vgpu::ir
