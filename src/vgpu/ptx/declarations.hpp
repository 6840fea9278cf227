// Variables, parameters and registers (PTX ISA 5.4), their initialisers and attributes.
#pragma once

#include <vector>

#include "vgpu/ptx/cursor.hpp"

namespace flashmoe::vgpu::ptx {

// Linkage written before a variable or a function.
struct Linkage {
  bool is_extern = false, is_visible = false, is_weak = false, is_common = false;
};
[[nodiscard]] Linkage parse_linkage(Cursor& cursor);

// .reg .param .shared .global .const .local: does a declaration of variables begin here?
[[nodiscard]] bool begins_variable(const Token& token);

// One declaration with all its names, up to and with the semicolon; each name becomes a Variable of its own.
void parse_variables(Cursor& cursor, const Linkage& linkage, std::vector<Variable>& variables);

// "( .param .b32 a, .reg .u32 b )". `prototype`: names may be "_" or missing.
[[nodiscard]] std::vector<Variable> parse_parameters(Cursor& cursor, bool prototype);

// .attribute(.managed, .unified(1, 2))
[[nodiscard]] std::vector<std::string> parse_attributes(Cursor& cursor);

}  // namespace flashmoe::vgpu::ptx
