// Functions that device code declares and nobody defines: exec runs them itself (CUDA C++ Programming Guide, sections
// on formatted output, assertion and dynamic global memory).
#pragma once

#include <string>
#include <string_view>

#include "support/result.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

[[nodiscard]] bool is_builtin(std::string_view name);

// Of libcudadevrt: kernels that launch kernels call it, and exec has none.
[[nodiscard]] bool launches_kernels(std::string_view name);

// What is said of one that nobody defines and exec does not know.
[[nodiscard]] std::string defined_nowhere(std::string_view name);

// Whether a declaration says what exec will read and write. `module` is what diagnostics call the text.
[[nodiscard]] Result<Done> check_builtin(const ptx::Function& declaration, const std::string& module);

}  // namespace flashmoe::vgpu::ir
