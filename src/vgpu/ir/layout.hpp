// Sizes and places of variables: parameter areas, local memory, shared memory.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "vgpu/ir/kernel.hpp"
#include "vgpu/ptx/ast.hpp"

namespace flashmoe::vgpu::ir {

// The most that a variable in .shared, .local or .param may have; no device has as much.
inline constexpr std::uint32_t kMostBytes = 1u << 26;
// What a thread can have of local memory (CUDA C++ Programming Guide, technical specifications per compute capability).
inline constexpr std::uint32_t kMostLocalBytes = 512 * 1024;
// Of an entry, since PTX ISA 8.1 (section on .param of kernel functions).
inline constexpr std::uint32_t kMostEntryParameterBytes = 32764;
// Never more than kMostBytes. [] counts as nothing: its size is known at launch.
[[nodiscard]] std::uint32_t bytes_of(const ptx::Variable& variable);
[[nodiscard]] std::uint32_t align_of(const ptx::Variable& variable);
[[nodiscard]] constexpr std::uint32_t round_up(std::uint32_t value, std::uint32_t align) {
  return (value + align - 1) / align * align;
}

// Variables one behind the other, each aligned. A sum beyond kMostBytes stays there: no device has as much.
struct Area {
  std::uint32_t bytes = 0;
  std::uint32_t align = 1;
  std::uint32_t place(const ptx::Variable& variable);
};

// A function's own .param area: returns, then parameters.
struct ParameterArea {
  std::vector<std::uint32_t> returns{}, parameters{};  // offsets
  std::uint32_t bytes = 0;
};
[[nodiscard]] ParameterArea parameter_area(std::span<const ptx::Variable> returns,
                                           std::span<const ptx::Variable> parameters);

// Between two variables of checked runs. Whatever is moved by a multiple of it keeps its banks.
inline constexpr std::uint32_t kRedZoneBytes = 128;

struct SharedLayout {
  std::unordered_map<const ptx::Variable*, std::uint32_t> offsets{};
  std::uint32_t static_bytes = 0;  // these two as on a device, without red zones
  std::uint32_t dynamic_offset = 0;
  std::uint32_t red_zone_bytes = 0;   // by which the dynamic part is moved
  std::vector<SharedArray> arrays{};  // by offset; only with red zones
};
// `functions`: what the entry reaches. Module-scope variables count when one of them names it.
[[nodiscard]] SharedLayout shared_layout(const ptx::Module& module, std::span<const ptx::Function* const> functions,
                                         bool red_zones = false);

// Every instruction and variable of a body, blocks within blocks included.
template <class OnInstruction, class OnVariable>
void walk(const ptx::Block& block, const OnInstruction& on_instruction, const OnVariable& on_variable) {
  for (const ptx::Statement& statement : block.statements) {
    if (const auto* instruction = std::get_if<ptx::Instruction>(&statement.what)) on_instruction(*instruction);
    if (const auto* variable = std::get_if<ptx::Variable>(&statement.what)) on_variable(*variable);
    if (const auto* inner = std::get_if<ptx::Block>(&statement.what)) walk(*inner, on_instruction, on_variable);
  }
}

// Every operand, parts of vectors and lists included.
template <class OnOperand>
void walk(const std::vector<ptx::Operand>& operands, const OnOperand& on_operand) {
  for (const ptx::Operand& operand : operands) {
    on_operand(operand);
    walk(operand.parts, on_operand);
  }
}

}  // namespace flashmoe::vgpu::ir
