#include "vgpu/oracle/step.hpp"

#include <algorithm>
#include <cstring>

namespace flashmoe::vgpu::oracle {

std::span<const ptx::Operand> elements(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::vector) return operand.parts;
  return {&operand, 1};
}

bool Step::has(std::string_view modifier) const {
  return std::find(instruction.modifiers.begin(), instruction.modifiers.end(), modifier) != instruction.modifiers.end();
}

std::string_view Step::type(int n) const {
  const Program& program = *thread.frames.back().program;
  const std::vector<std::string>& types =
      program.types.at(static_cast<std::size_t>(&instruction - program.code.data()));
  const int at = n < 0 ? static_cast<int>(types.size()) + n : n;
  if (at < 0 || at >= static_cast<int>(types.size())) unknown("it lacks a type");
  return types[static_cast<std::size_t>(at)];
}

Round Step::round() const {
  if (has("rz") || has("rzi")) return Round::zero;
  if (has("rm") || has("rmi")) return Round::down;
  if (has("rp") || has("rpi")) return Round::up;
  if (has("rna")) return Round::nearest_away;
  return Round::nearest_even;
}

Bits Step::identifier(const std::string& name, bool minus) const {
  const auto& frame = thread.frames.back();
  if (const auto bits = frame.program->register_bits.find(name); bits != frame.program->register_bits.end()) {
    const auto held = frame.registers.find(name);
    Bits value = held == frame.registers.end() ? 0 : held->second;
    if (minus) value = (~value + 1) & mask_of(bits->second);
    return value;
  }
  Bits value = 0;
  Step self(machine, thread, instruction);
  if (special_register(self, name, value)) return value;
  for (const auto* variables : {&frame.program->variables, &machine.image().variables}) {
    if (const auto found = variables->find(name); found != variables->end()) {
      const Place& place = found->second;
      if (place.space == "local") return frame.local_start + place.offset;
      if (place.space == "global" || place.space == "const") return module_base + place.offset;
      return place.offset;
    }
  }
  if (const auto found = machine.image().function_ids.find(name); found != machine.image().function_ids.end())
    return found->second;
  unknown("nothing is called " + name);
}

Bits Step::read(const ptx::Operand& operand, std::string_view type) const {
  using Kind = ptx::Operand::Kind;
  const bool floating = type[0] == 'f' || type[0] == 'b' ? type != "b8" && (type[0] == 'f' || type[1] == 'f') : false;
  switch (operand.kind) {
    case Kind::identifier:
      return identifier(operand.name, operand.minus) & mask_of(type_bits(type));
    case Kind::integer:
      return Bits{operand.bits} & mask_of(type_bits(type));
    case Kind::floating:
      if (!floating) return Bits{operand.bits} & mask_of(type_bits(type));
      return encode(decode(operand.bits, format_of("f64")), format_of(type), Round::nearest_even);
    case Kind::single:
      if (type == "f64") return encode(decode(operand.bits, format_of("f32")), format_of(type), Round::nearest_even);
      return Bits{operand.bits} & mask_of(type_bits(type));
    default:
      unknown("an operand is no value");
  }
}

bool Step::predicate(const ptx::Operand& operand) const {
  const bool value = operand.kind == ptx::Operand::Kind::integer ? operand.bits != 0
                                                                 : (identifier(operand.name, operand.minus) & 1) != 0;
  return value != operand.negated;
}

bool Step::is_guarded_off() const {
  const auto& guard = instruction.guard;
  return guard && ((identifier(guard->predicate, false) & 1) != 0) == guard->negated;
}

std::string_view Step::space() const {
  for (const std::string& word : instruction.modifiers)
    for (const char* name : {"global", "shared", "local", "param", "const"})
      if (word == name || (word.starts_with(name) && word.compare(std::strlen(name), 2, "::") == 0)) return name;
  return "";
}

std::uint64_t Step::address(std::size_t i, std::string_view space) const {
  const ptx::Operand& place = operand(i);
  std::uint64_t base = 0;
  if (!place.name.empty()) base = static_cast<std::uint64_t>(identifier(place.name, place.minus));
  for (const ptx::Operand& part : place.parts) base += static_cast<std::uint64_t>(read(part, "u64"));
  base += static_cast<std::uint64_t>(place.offset);
  if (space == "shared") return shared_base + (base & 0xffffffffu);
  if (space == "local") return local_base + base;
  if (space == "param") return parameter_base + base;
  return base;
}

void Step::write(const ptx::Operand& operand, Bits value) {
  if (operand.kind == ptx::Operand::Kind::placeholder) return;
  auto& frame = thread.frames.back();
  const auto bits = frame.program->register_bits.find(operand.name);
  if (bits == frame.program->register_bits.end()) unknown("it writes to " + operand.name);
  frame.registers[operand.name] = value & mask_of(bits->second);
}

void Step::write_as(const ptx::Operand& operand, std::string_view type, Bits value) {
  const int bits = type_bits(type);
  value &= mask_of(bits);
  write(operand, type[0] == 's' ? static_cast<Bits>(sign_extend(value, bits)) : value);
}

void Step::unknown(std::string_view why) const {
  throw std::runtime_error("oracle: line " + std::to_string(instruction.at.line) + ", " + instruction.form() + ": " +
                           std::string(why));
}

}  // namespace flashmoe::vgpu::oracle
