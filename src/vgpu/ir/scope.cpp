#include "vgpu/ir/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace flashmoe::vgpu::ir {
namespace {

constexpr int kMostRegisters = 1 << 20;

}  // namespace

Scopes::Scopes(const ModuleIndex& index, const SharedLayout& shared, const ptx::Function& function,
               FunctionDraft& draft)
    : index_(index), shared_(shared), draft_(draft) {
  const ParameterArea area = parameter_area(function.returns, function.parameters);
  Scope& scope = scopes_.emplace_back();
  const auto kind = function.is_entry ? Symbol::Kind::kernel_parameter : Symbol::Kind::frame_parameter;
  const auto declare_all = [&](const std::vector<ptx::Variable>& variables, const std::vector<std::uint32_t>& offsets) {
    for (std::size_t i = 0; i < variables.size(); ++i)
      scope.names[variables[i].name] = {kind, 0, offsets[i], &variables[i], nullptr, nullptr};
  };
  declare_all(function.returns, area.returns);
  declare_all(function.parameters, area.parameters);
  // The parameters of an entry lie in the launch's buffer, not in its frame.
  calls_.bytes = draft_.function.parameter_bytes = function.is_entry ? 0 : area.bytes;
}

void Scopes::open(const ptx::Block& block) {
  scopes_.emplace_back().call_bytes_outside = calls_.bytes;
  for (const ptx::Statement& statement : block.statements) {
    Scope& scope = scopes_.back();
    if (const auto* variable = std::get_if<ptx::Variable>(&statement.what)) declare(*variable);
    if (const auto* label = std::get_if<ptx::Label>(&statement.what)) {
      Symbol symbol{Symbol::Kind::label};
      symbol.number = static_cast<std::uint32_t>(draft_.labels.size());
      draft_.labels.push_back(no_slot);
      scope.names[label->name] = symbol;
    }
    if (const auto* targets = std::get_if<ptx::TargetList>(&statement.what)) {
      Symbol symbol{Symbol::Kind::targets};
      symbol.targets = targets;
      scope.names[targets->name] = symbol;
    }
  }
}

void Scopes::close() {
  calls_.bytes = scopes_.back().call_bytes_outside;
  scopes_.pop_back();
}

void Scopes::declare(const ptx::Variable& variable) {
  Symbol symbol;
  symbol.variable = &variable;
  if (variable.space == "reg") return declare_registers(variable);
  if (bytes_of(variable) == kMostBytes)
    draft_.errors.push_back(
        {fmt::format("variable {} is larger than any device's .{} memory", variable.name, variable.space), "",
         index_.module->name, variable.at.line, variable.at.column, ""});
  if (variable.space == "shared") {
    symbol.kind = Symbol::Kind::shared;
    symbol.offset = shared_.offsets.at(&variable);
  } else if (variable.space == "local") {
    symbol.kind = Symbol::Kind::local;
    symbol.offset = local_.place(variable);
    draft_.function.local_bytes = round_up(local_.bytes, 16);
  } else if (variable.space == "param") {
    symbol.kind = Symbol::Kind::frame_parameter;
    symbol.offset = call_area(variable);
  } else {
    symbol.kind = variable.space == "const" ? Symbol::Kind::constant : Symbol::Kind::global;
  }
  scopes_.back().names[variable.name] = symbol;
}

std::uint32_t Scopes::call_area(const ptx::Variable& variable) {
  const std::uint32_t offset = calls_.place(variable);
  Function& function = draft_.function;
  function.call_area_bytes = std::max(function.call_area_bytes, calls_.bytes - function.parameter_bytes);
  return offset;
}

void Scopes::declare_registers(const ptx::Variable& variable) {
  const int bits = bits_of(type_of(variable.type));
  if (bits == 0 || bits > 64 || variable.vector > 1 || variable.range > kMostRegisters) {
    (bits == 0 || variable.range > kMostRegisters ? draft_.errors : draft_.unsupported)
        .push_back({fmt::format("registers {} of type .{}{}: only scalars of up to 64 bits, up to {} of them",
                                variable.name, variable.vector > 1 ? "vN ." : "", variable.type, kMostRegisters),
                    "", index_.module->name, variable.at.line, variable.at.column, ""});
    return;
  }
  const Register reg{variable.name, bits == 1 ? 1 : std::max(bits, 16)};
  const auto first = static_cast<std::uint32_t>(draft_.registers.size());
  if (variable.range == 0) {
    draft_.registers.push_back(reg);
    Symbol symbol{Symbol::Kind::reg};
    symbol.number = first;
    scopes_.back().names[variable.name] = symbol;
    return;
  }
  scopes_.back().ranges[variable.name] = {first, static_cast<std::uint32_t>(variable.range)};
  for (int i = 0; i < variable.range; ++i) draft_.registers.push_back({variable.name + std::to_string(i), reg.bits});
}

const Scopes::Range* Scopes::range_of(const Scope& scope, std::string_view name, std::uint32_t& number) {
  // %r1<5> declares %r10 to %r14, so every split into prefix and digits is tried.
  for (std::size_t digits = 1; digits < name.size() && digits <= 9; ++digits) {
    const std::string_view tail = name.substr(name.size() - digits);
    if (tail[0] < '0' || tail[0] > '9') break;
    if (tail[0] == '0' && digits > 1) continue;
    const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
    if (range == scope.ranges.end()) continue;
    std::from_chars(tail.data(), tail.data() + tail.size(), number);
    if (number < range->second.count) return &range->second;
  }
  return nullptr;
}

Symbol Scopes::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->names.find(name); found != scope->names.end()) return found->second;
    std::uint32_t number = 0;
    if (const Range* range = range_of(*scope, name, number)) {
      Symbol symbol{Symbol::Kind::reg};
      symbol.number = range->first + number;
      return symbol;
    }
  }
  Symbol symbol;
  if (const ptx::Variable* variable = index_.variable(name)) {
    symbol.variable = variable;
    if (variable->space == "shared") {
      symbol.kind = Symbol::Kind::shared;
      const auto offset = shared_.offsets.find(variable);
      symbol.offset = offset == shared_.offsets.end() ? 0 : offset->second;
    } else {
      symbol.kind = variable->space == "const" ? Symbol::Kind::constant : Symbol::Kind::global;
    }
  } else if (const ptx::Function* function = index_.function(name)) {
    symbol.kind = Symbol::Kind::function;
    symbol.function = function;
  }
  return symbol;
}

}  // namespace flashmoe::vgpu::ir
