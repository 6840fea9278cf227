// What chooses an op's function: a form without its text. Plain data only, because the variants (one per instruction
// set of the host) must not instantiate anything of the standard library that the linker could share with other code.
#pragma once

#include <cstdint>

#include "vgpu/ir/kernel.hpp"

namespace flashmoe::vgpu::exec::ops {

// In the order of op_names in key.cpp.
enum class Op : std::uint8_t {
  abs_,
  activemask,
  add,
  addc,
  and_,
  bfe,
  bfi,
  bfind,
  bmsk,
  brev,
  clz,
  cnot,
  copysign,
  cos,
  cvt,
  div,
  dp2a,
  dp4a,
  elect,
  ex2,
  fma,
  fns,
  lg2,
  lop3,
  mad,
  mad24,
  madc,
  match,
  max,
  min,
  mma,
  mov,
  movmatrix,
  mul,
  mul24,
  neg,
  not_,
  or_,
  popc,
  prmt,
  rcp,
  redux,
  rem,
  rsqrt,
  sad,
  selp,
  set,
  setp,
  shf,
  shfl,
  shl,
  shr,
  sin,
  slct,
  sqrt,
  sub,
  subc,
  szext,
  tanh,
  testp,
  vote,
  xor_,
  count,
};

// In the order of modifier_names in key.cpp. Types and roundings are no modifiers here.
enum class Modifier : std::uint8_t {
  NaN,
  abs_,
  add,
  aligned,
  all,
  and_,
  any,
  approx,
  b4e,
  ballot,
  bfly,
  cc,
  clamp,
  col,
  down,
  ecl,
  ecr,
  eq,
  equ,
  f4e,
  finite,
  ftz,
  full,
  ge,
  geu,
  gt,
  gtu,
  hi,
  hs,
  idx,
  infinite,
  l,
  le,
  leu,
  lo,
  ls,
  lt,
  ltu,
  m16n8k16,
  m16n8k32,
  m16n8k4,
  m16n8k8,
  m8n8,
  m8n8k16,
  m8n8k4,
  max,
  min,
  nan,
  ne,
  neu,
  normal,
  notanumber,
  num,
  number,
  or_,
  pack,
  r,
  rc16,
  rc8,
  relu,
  row,
  sat,
  satfinite,
  shiftamt,
  subnormal,
  sync,
  trans,
  uni,
  up,
  wide,
  wrap,
  xor_,
  xorsign,
  count,
};

struct Key {
  Op op = Op::count;
  bool modifiers[static_cast<int>(Modifier::count)] = {};
  ir::Type types[4] = {};
  int type_count = 0;
  ir::Rounding rounding = ir::Rounding::none;
  int destination_count = 1, source_count = 1, destination_bits = 0, source_bits = 0;
  bool reads_special = false;

  [[nodiscard]] bool has(Modifier modifier) const { return modifiers[static_cast<int>(modifier)]; }
  [[nodiscard]] ir::Type type() const { return type_count > 0 ? types[type_count - 1] : ir::Type::none; }
};

// False: an opcode or modifier that no op here knows.
[[nodiscard]] bool make_key(const ir::Form& form, Key& key);

using Find = ir::Handler (*)(const Key&);

}  // namespace flashmoe::vgpu::exec::ops
