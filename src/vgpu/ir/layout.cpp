#include "vgpu/ir/layout.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>

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

SharedLayout shared_layout(const ptx::Module& module, std::span<const ptx::Function* const> functions, bool red_zones) {
  std::unordered_map<std::string_view, bool> is_named;  // the module's own ones
  for (const ptx::Variable& variable : module.variables)
    if (variable.space == "shared") is_named[variable.name] = false;
  std::vector<const ptx::Variable*> variables;
  for (const ptx::Function* function : functions) {
    walk(
        function->body,
        [&](const ptx::Instruction& instruction) {
          if (is_named.empty()) return;
          walk(instruction.operands, [&](const ptx::Operand& operand) {
            if (const auto found = is_named.find(operand.name); found != is_named.end()) found->second = true;
          });
        },
        [&](const ptx::Variable& variable) {
          if (variable.space == "shared") variables.push_back(&variable);
        });
  }
  for (const ptx::Variable& variable : module.variables)
    if (variable.space == "shared" && is_named[variable.name]) variables.push_back(&variable);

  const auto is_dynamic = [](const ptx::Variable& variable) {
    return std::find(variable.dims.begin(), variable.dims.end(), -1) != variable.dims.end();
  };
  SharedLayout layout;
  Area area;
  std::uint32_t dynamic_align = 16;
  std::uint32_t moved = 0;  // what comes now, by the red zones before it
  const auto move_on = [&](std::uint32_t align) {
    moved = red_zones ? round_up(moved + kRedZoneBytes, std::max(align, kRedZoneBytes)) : 0;
  };
  for (const ptx::Variable* variable : variables) {
    if (is_dynamic(*variable)) {
      dynamic_align = std::max(dynamic_align, align_of(*variable));
      continue;
    }
    if (!layout.arrays.empty()) move_on(align_of(*variable));
    const std::uint32_t offset = area.place(*variable) + moved;
    layout.offsets[variable] = offset;
    if (red_zones) layout.arrays.push_back({variable->name, offset, bytes_of(*variable)});
  }
  layout.static_bytes = area.bytes;
  layout.dynamic_offset = round_up(area.bytes, dynamic_align);
  if (!layout.arrays.empty()) move_on(dynamic_align);
  layout.red_zone_bytes = moved;
  for (const ptx::Variable* variable : variables)
    if (is_dynamic(*variable)) layout.offsets[variable] = layout.dynamic_offset + moved;
  return layout;
}

}  // namespace flashmoe::vgpu::ir
