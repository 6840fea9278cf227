#include "vgpu/ir/builtins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "vgpu/ir/layout.hpp"

namespace flashmoe::vgpu::ir {
namespace {

struct Builtin {
  std::string_view name;
  std::vector<std::uint32_t> result_bytes, argument_bytes;
  std::string_view declaration;
};

// As nvcc declares them.
const std::vector<Builtin>& builtins() {
  static const auto& all = *new std::vector<Builtin>{
      {"vprintf", {4}, {8, 8}, "(.param .b32) vprintf (.param .b64, .param .b64)"},
      {"__assertfail",
       {},
       {8, 8, 4, 8, 8},
       "__assertfail (.param .b64, .param .b64, .param .b32, .param .b64, .param .b64)"},
      {"malloc", {8}, {8}, "(.param .b64) malloc (.param .b64)"},
      {"free", {}, {8}, "free (.param .b64)"},
  };
  return all;
}

const Builtin* find(std::string_view name) {
  const auto found = std::find_if(builtins().begin(), builtins().end(),
                                  [name](const Builtin& builtin) { return builtin.name == name; });
  return found == builtins().end() ? nullptr : &*found;
}

bool have_sizes(std::span<const ptx::Variable> variables, std::span<const std::uint32_t> bytes) {
  return std::equal(variables.begin(), variables.end(), bytes.begin(), bytes.end(),
                    [](const ptx::Variable& variable, std::uint32_t size) { return bytes_of(variable) == size; });
}

}  // namespace

bool is_builtin(std::string_view name) {
  return find(name) != nullptr;
}

bool launches_kernels(std::string_view name) {
  return name.starts_with("__cudaCDP2") || name.starts_with("cudaLaunchDevice");
}

std::string defined_nowhere(std::string_view name) {
  return fmt::format("function {} is declared but defined nowhere", name);
}

Result<Done> check_builtin(const ptx::Function& declaration, const std::string& module) {
  const Builtin* const builtin = find(declaration.name);
  if (builtin == nullptr || (have_sizes(declaration.returns, builtin->result_bytes) &&
                             have_sizes(declaration.parameters, builtin->argument_bytes)))
    return Done{};
  return Diagnostic{fmt::format("{} is declared with other results or arguments than it has", declaration.name),
                    fmt::format("the device's {} is .extern .func {}", declaration.name, builtin->declaration),
                    module,
                    declaration.at.line,
                    declaration.at.column,
                    ""};
}

}  // namespace flashmoe::vgpu::ir
