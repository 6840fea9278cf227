// Several PTX modules into one: what cuLink does, on the AST.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "vgpu/driver/jit_options.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::driver {

// The texts that cuLinkAddData gave, until cuLinkComplete.
struct Link {
  JitOptions options;  // cuLinkCreate's: the caller keeps their values alive as long as the link
  std::vector<std::string> texts{};
  std::vector<std::byte> image{};  // what cuLinkComplete handed out
};

// Definitions take the place of the .extern declarations of the other modules; of several .weak ones the first counts;
// names that are not visible stay their module's own. Two visible definitions are an error.
[[nodiscard]] Result<ptx::Module> link(std::vector<ptx::Module> parts);

}  // namespace flashmoe::vgpu::driver
