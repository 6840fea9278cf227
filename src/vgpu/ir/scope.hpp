// What a name means at a place in a function: { } blocks nest, an inner declaration hides an outer one (PTX ISA 5.4.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "vgpu/ir/draft.hpp"

namespace flashmoe::vgpu::ir {

struct Symbol {
  enum class Kind : std::uint8_t {
    none,
    reg,
    label,
    targets,  // .branchtargets, .calltargets, .callprototype
    shared,   // variables: `offset` in their space
    local,
    kernel_parameter,  // in the parameter buffer of the launch
    frame_parameter,   // in the frame's area: the function's own, or of a call it makes
    global,
    constant,
    function,
  };
  Kind kind = Kind::none;
  std::uint32_t number = 0;  // register, label
  std::uint64_t offset = 0;
  const ptx::Variable* variable = nullptr;
  const ptx::TargetList* targets = nullptr;
  const ptx::Function* function = nullptr;
};

class Scopes {
 public:
  Scopes(const ModuleIndex& index, const SharedLayout& shared, const ptx::Function& function, FunctionDraft& draft);

  void open(const ptx::Block& block);
  void close();
  [[nodiscard]] Symbol find(std::string_view name) const;
  // Room in the frame's parameter area that lives until the present block closes.
  std::uint32_t call_area(const ptx::Variable& variable);

 private:
  struct Range {
    std::uint32_t first = 0, count = 0;
  };
  struct Scope {
    std::unordered_map<std::string_view, Symbol> names{};
    std::unordered_map<std::string_view, Range> ranges{};  // %r<10> by its prefix
    std::uint32_t call_bytes_outside = 0;
  };
  void declare(const ptx::Variable& variable);
  void declare_registers(const ptx::Variable& variable);
  [[nodiscard]] static const Range* range_of(const Scope& scope, std::string_view name, std::uint32_t& number);

  const ModuleIndex& index_;
  const SharedLayout& shared_;
  FunctionDraft& draft_;
  std::vector<Scope> scopes_{};
  Area local_{};
  Area calls_{};
};

}  // namespace flashmoe::vgpu::ir
