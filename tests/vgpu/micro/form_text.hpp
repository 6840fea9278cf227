// A form and what the op table says of its operands, taken apart.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashmoe::vgpu::micro {

struct OperandText {
  std::string field{};  // of the table: d, a, b, ...
  // "type" (a register of `type`), "pred", "mask", "immediate", "addr", "carry", "policy", "any", "vector", "pack",
  // "label", "targets", "call"
  std::string kind{};
  std::string type{};      // resolved: "f32"
  int length = 1;          // of a vector
  bool optional = false;   // may be left out
  bool may_widen = false;  // the register may be wider than the type
  bool has_pair = false;   // d|p may be written
};

struct FormText {
  std::string text{};  // "fma.rn.f32"
  std::string opcode{};
  std::vector<std::string> modifiers{};
  std::vector<OperandText> operands{};
  [[nodiscard]] bool has(std::string_view modifier) const;
  [[nodiscard]] std::string type(int n = -1) const;  // the n-th type, from the end when negative; "" if there is none
  [[nodiscard]] int vector_length() const;           // .v4: 4
};

// `operands` in the notation of the op table.
[[nodiscard]] FormText take_apart(const std::string& form, std::string_view operands);

}  // namespace flashmoe::vgpu::micro
