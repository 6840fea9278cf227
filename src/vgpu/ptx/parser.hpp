// Text -> AST. Any .version is accepted; what the grammar does not know fails with line, column and the text itself.
#pragma once

#include <string>
#include <string_view>

#include "support/result.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ptx {

// `name` is what diagnostics call the text: a path, or "image 3 of module 0x...".
[[nodiscard]] Result<Module> parse(std::string_view text, std::string name);

// AST -> text that parses to the same AST; parse(print(parse(t))) prints the same bytes.
[[nodiscard]] std::string print(const Module& module);
[[nodiscard]] std::string print(const Instruction& instruction);

}  // namespace flashmoe::vgpu::ptx
