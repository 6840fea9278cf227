#include "vgpu/ir/layout.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "vgpu/ir/form.hpp"

namespace flashmoe::vgpu::ir {

std::uint32_t bytes_of(const ptx::Variable& variable) {
  std::int64_t bytes = std::max(bits_of(type_of(variable.type)) / 8, 1) * std::int64_t{variable.vector};
  for (const std::int64_t dim : variable.dims) {
    if (dim > kMostBytes / std::max<std::int64_t>(bytes, 1)) return kMostBytes;
    bytes *= std::max<std::int64_t>(dim, 0);
  }
  return static_cast<std::uint32_t>(std::min<std::int64_t>(bytes, kMostBytes));
}

std::uint32_t align_of(const ptx::Variable& variable) {
  if (variable.align > 0) return static_cast<std::uint32_t>(variable.align);
  return static_cast<std::uint32_t>(std::max(bits_of(type_of(variable.type)) / 8, 1) * variable.vector);
}

std::uint32_t Area::place(const ptx::Variable& variable) {
  align = std::max(align, align_of(variable));
  const std::uint64_t padded =
      (std::uint64_t{bytes} + align_of(variable) - 1) / align_of(variable) * align_of(variable);
  const auto offset = static_cast<std::uint32_t>(std::min<std::uint64_t>(padded, kMostBytes));
  bytes = std::min(offset + bytes_of(variable), kMostBytes);
  return offset;
}

ParameterArea parameter_area(std::span<const ptx::Variable> returns, std::span<const ptx::Variable> parameters) {
  ParameterArea result;
  Area area;
  for (const ptx::Variable& variable : returns) result.returns.push_back(area.place(variable));
  for (const ptx::Variable& variable : parameters) result.parameters.push_back(area.place(variable));
  result.bytes = area.bytes;
  return result;
}

SharedLayout shared_layout(const ptx::Module& module, std::span<const ptx::Function* const> functions) {
  std::unordered_set<std::string_view> named;
  std::vector<const ptx::Variable*> variables;
  for (const ptx::Function* function : functions) {
    walk(
        function->body,
        [&](const ptx::Instruction& instruction) {
          walk(instruction.operands, [&](const ptx::Operand& operand) {
            if (!operand.name.empty()) named.insert(operand.name);
          });
        },
        [&](const ptx::Variable& variable) {
          if (variable.space == "shared") variables.push_back(&variable);
        });
  }
  for (const ptx::Variable& variable : module.variables)
    if (variable.space == "shared" && named.contains(variable.name)) variables.push_back(&variable);

  const auto is_dynamic = [](const ptx::Variable& variable) {
    return std::find(variable.dims.begin(), variable.dims.end(), -1) != variable.dims.end();
  };
  SharedLayout layout;
  Area area;
  std::uint32_t dynamic_align = 16;
  for (const ptx::Variable* variable : variables) {
    if (is_dynamic(*variable)) {
      dynamic_align = std::max(dynamic_align, align_of(*variable));
    } else {
      layout.offsets[variable] = area.place(*variable);
    }
  }
  layout.static_bytes = area.bytes;
  layout.dynamic_offset = round_up(area.bytes, dynamic_align);
  for (const ptx::Variable* variable : variables)
    if (is_dynamic(*variable)) layout.offsets[variable] = layout.dynamic_offset;
  return layout;
}

}  // namespace flashmoe::vgpu::ir
