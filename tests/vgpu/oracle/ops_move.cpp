// mov, special registers, cvta, isspacep, and what only asks about the machine: PTX ISA 9.7.9, 10.
#include <algorithm>
#include <iterator>
#include <utility>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

void move(Step& s) {
  const std::string_view type = s.type();
  const ptx::Operand& to = s.operand(0);
  const ptx::Operand& from = s.operand(1);
  using Kind = ptx::Operand::Kind;
  if (type == "pred") {
    s.write(0, s.predicate(1));
    return;
  }
  const int bits = type_bits(type);
  if (from.kind == Kind::vector) {  // {x, y, ...} packed, x lowest
    const int part = bits / static_cast<int>(from.parts.size());
    Bits value = 0;
    for (std::size_t i = 0; i < from.parts.size(); ++i)
      value |= s.read(from.parts[i], "b" + std::to_string(part)) << (part * static_cast<int>(i));
    s.write(0, value);
    return;
  }
  const Bits value = s.read(from, type);
  if (to.kind == Kind::vector) {
    const int part = bits / static_cast<int>(to.parts.size());
    for (std::size_t i = 0; i < to.parts.size(); ++i)
      s.write(to.parts[i], value >> (part * static_cast<int>(i)) & mask_of(part));
    return;
  }
  s.write(0, value);
}

std::uint64_t window(std::string_view space) {
  if (space == "shared") return shared_base;
  if (space == "local") return local_base;
  if (space == "param") return parameter_base;
  return 0;
}

void convert_address(Step& s) {
  const std::string_view type = s.type();
  const std::uint64_t base = window(s.space());
  const auto value = static_cast<std::uint64_t>(s.read(1, type));
  s.write(0, s.has("to") ? value - base : value + base);
}

void is_in_space(Step& s) {
  const auto value = static_cast<std::uint64_t>(s.read(1, "u64"));
  const std::string_view space = s.space();
  const std::uint64_t base = window(space);
  bool inside = value >= base && value < base + space_bytes;
  if (space == "global") inside = value < shared_base || (value >= module_base && value < module_base + space_bytes);
  s.write(0, inside);
}

}  // namespace

bool special_register(Step& s, const std::string& name, Bits& value) {
  const Dim3 tid = s.thread.id, ctaid = s.machine.block(), ntid = s.machine.launch().block,
             nctaid = s.machine.launch().grid;
  const auto lane = static_cast<Bits>(s.thread.lane);
  const Bits one = Bits{1} << s.thread.lane;
  const std::pair<std::string_view, Bits> values[] = {
      {"%tid.x", tid.x},
      {"%tid.y", tid.y},
      {"%tid.z", tid.z},
      {"%ntid.x", ntid.x},
      {"%ntid.y", ntid.y},
      {"%ntid.z", ntid.z},
      {"%ctaid.x", ctaid.x},
      {"%ctaid.y", ctaid.y},
      {"%ctaid.z", ctaid.z},
      {"%nctaid.x", nctaid.x},
      {"%nctaid.y", nctaid.y},
      {"%nctaid.z", nctaid.z},
      {"%laneid", lane},
      {"%warpid", static_cast<Bits>(s.thread.warp)},
      {"%lanemask_eq", one},
      {"%lanemask_lt", one - 1},
      {"%lanemask_le", (one << 1) - 1},
      {"%lanemask_gt", ~((one << 1) - 1) & mask_of(32)},
      {"%lanemask_ge", ~(one - 1) & mask_of(32)},
      {"WARP_SZ", 32},
      {"%dynamic_smem_size", s.machine.launch().dynamic_shared_bytes},
  };
  const auto found = std::find_if(std::begin(values), std::end(values), [&](const auto& v) { return v.first == name; });
  if (found == std::end(values)) return false;
  value = found->second;
  return true;
}

bool move_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "mov")
    move(s);
  else if (opcode == "cvta")
    convert_address(s);
  else if (opcode == "isspacep")
    is_in_space(s);
  else
    return false;
  return true;
}

}  // namespace flashmoe::vgpu::oracle
