#include "vgpu/driver/globals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "vgpu/driver/watch.hpp"

namespace flashmoe::vgpu::driver {
namespace {

// "b32" -> 4; PTX ISA 5.2.1. Two halves in one element ("f16x2") count as one element of both.
std::uint64_t element_bytes(const ptx::TypeName& type) {
  if (type == "pred") return 1;
  std::uint64_t bits = 0;
  const char* const digits = type.data() + std::min<std::size_t>(type.size(), type.starts_with("bf") ? 2 : 1);
  const auto end = std::from_chars(digits, type.data() + type.size(), bits).ptr;
  if (std::string_view(end, type.data() + type.size()) == "x2") bits *= 2;
  return bits / 8;
}

// Textures, samplers and surfaces have no place in memory; instructions that use them are refused.
bool is_placed(const ptx::Variable& variable) {
  return (variable.space == "global" || variable.space == "const") && !variable.type.ends_with("ref");
}

Diagnostic at(const Module& module, const ptx::Variable& variable, std::string message) {
  return {.message = fmt::format("{}: {}", variable.name, message),
          .file = module.ptx.name,
          .line = variable.at.line,
          .column = variable.at.column};
}

// PTX ISA 5.4.4: a decimal or hexadecimal literal converts to the element's own format.
Result<std::uint64_t> value_of(const Module& module, const ptx::Variable& variable, const ptx::Operand& value,
                               const std::function<std::uint64_t(std::string_view)>& function_address) {
  const bool is_float = variable.type.starts_with("f");
  const std::uint64_t bytes = element_bytes(variable.type);
  switch (value.kind) {
    case ptx::Operand::Kind::integer:
      if (is_float && bytes == 4) return std::bit_cast<std::uint32_t>(static_cast<float>(std::int64_t(value.bits)));
      if (is_float && bytes == 8) return std::bit_cast<std::uint64_t>(static_cast<double>(std::int64_t(value.bits)));
      return value.bits;
    case ptx::Operand::Kind::floating:
      if (bytes == 4) return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(value.bits)));
      return value.bits;
    case ptx::Operand::Kind::single:
      if (is_float && bytes == 8)
        return std::bit_cast<std::uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(value.bits))));
      return value.bits;
    case ptx::Operand::Kind::identifier:
    case ptx::Operand::Kind::address: {
      if (const auto found = module.globals.find(value.name); found != module.globals.end())
        return found->second.address + static_cast<std::uint64_t>(value.offset);
      if (const std::uint64_t address = function_address(value.name); address != 0) return address;
      return at(module, variable, fmt::format("its initial value names \"{}\", which is not defined", value.name));
    }
    default:
      return at(module, variable, "its initial value is of a kind that is not supported");
  }
}

}  // namespace

Result<Done> place_globals(Module& module, const std::function<std::uint64_t(std::string_view)>& function_address) {
  for (const ptx::Variable& variable : module.ptx.variables) {
    if (!is_placed(variable)) continue;
    if (variable.is_extern)
      return Diagnostic{.message = fmt::format("undefined variable \"{}\"", variable.name),
                        .fix = "link it with the module that defines it (cuLinkAddData)",
                        .file = module.ptx.name,
                        .line = variable.at.line,
                        .column = variable.at.column};
    std::uint64_t bytes = element_bytes(variable.type) * static_cast<std::uint64_t>(variable.vector);
    if (bytes == 0) return at(module, variable, fmt::format("unknown type .{}", variable.type));
    for (const std::int64_t extent : variable.dims) {
      const std::uint64_t count = extent > 0 ? static_cast<std::uint64_t>(extent) : variable.initial.size();
      if (count != 0 && bytes > module.machine->memory_bytes() / count)
        return at(module, variable, "larger than the device's memory");
      bytes *= count;
    }
    const std::uint64_t align = std::max<std::uint64_t>(256, static_cast<std::uint64_t>(variable.align));
    const auto address = module.machine->memory->allocate(std::max<std::uint64_t>(bytes, 1), variable.name, align,
                                                          variable.space == "const");
    if (!address) return address.error();
    module.globals.emplace(variable.name, Global{*address, bytes});
  }
  // Values second: they may name any of the variables.
  for (const ptx::Variable& variable : module.ptx.variables) {
    const auto placed = module.globals.find(variable.name);
    if (placed == module.globals.end() || !is_placed(variable)) continue;
    auto* const to = reinterpret_cast<unsigned char*>(placed->second.address);
    std::memset(to, 0, placed->second.bytes);  // PTX ISA 5.4.4: zero where nothing is given
    host_wrote(placed->second.address, placed->second.bytes);
    const std::uint64_t step = element_bytes(variable.type);
    if (variable.initial.size() * step > placed->second.bytes)
      return at(
          module, variable,
          fmt::format("{} initial values do not fit into {} bytes", variable.initial.size(), placed->second.bytes));
    for (std::size_t i = 0; i < variable.initial.size(); ++i) {
      const auto value = value_of(module, variable, variable.initial[i], function_address);
      if (!value) return value.error();
      std::memcpy(to + i * step, &*value, std::min<std::uint64_t>(step, sizeof(*value)));
    }
    if (module.machine->watching.leftovers) placed->second.initial.assign(to, to + placed->second.bytes);
  }
  return Done{};
}

}  // namespace flashmoe::vgpu::driver
