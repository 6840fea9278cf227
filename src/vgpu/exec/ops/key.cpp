#include "vgpu/exec/ops/key.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace flashmoe::vgpu::exec::ops {
namespace {

constexpr std::string_view op_names[] = {
    "abs",  "activemask", "add",   "addc",  "and",   "bfe",   "bfi",  "bfind", "bmsk",  "brev", "clz",
    "cnot", "copysign",   "cos",   "cvt",   "div",   "dp2a",  "dp4a", "elect", "ex2",   "fma",  "fns",
    "lg2",  "lop3",       "mad",   "mad24", "madc",  "match", "max",  "min",   "mma",   "mov",  "movmatrix",
    "mul",  "mul24",      "neg",   "not",   "or",    "popc",  "prmt", "rcp",   "redux", "rem",  "rsqrt",
    "sad",  "selp",       "set",   "setp",  "shf",   "shfl",  "shl",  "shr",   "sin",   "slct", "sqrt",
    "sub",  "subc",       "szext", "tanh",  "testp", "vote",  "xor"};
static_assert(std::size(op_names) == static_cast<std::size_t>(Op::count));

constexpr std::string_view modifier_names[] = {
    "NaN",      "abs",        "add",       "aligned",  "all",       "and",  "any",   "approx", "b4e",      "ballot",
    "bfly",     "cc",         "clamp",     "col",      "down",      "ecl",  "ecr",   "eq",     "equ",      "f4e",
    "finite",   "ftz",        "full",      "ge",       "geu",       "gt",   "gtu",   "hi",     "hs",       "idx",
    "infinite", "l",          "le",        "leu",      "lo",        "ls",   "lt",    "ltu",    "m16n8k16", "m16n8k32",
    "m16n8k4",  "m16n8k8",    "m8n8",      "m8n8k16",  "m8n8k4",    "max",  "min",   "nan",    "ne",       "neu",
    "normal",   "notanumber", "num",       "number",   "or",        "pack", "r",     "rc16",   "rc8",      "relu",
    "row",      "sat",        "satfinite", "shiftamt", "subnormal", "sync", "trans", "uni",    "up",       "wide",
    "wrap",     "xor",        "xorsign"};
static_assert(std::size(modifier_names) == static_cast<std::size_t>(Modifier::count));

constexpr std::string_view rounding_names[] = {"rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"};

template <std::size_t Size>
std::size_t index_of(const std::string_view (&names)[Size], std::string_view name) {
  return static_cast<std::size_t>(std::find(names, names + Size, name) - names);
}

}  // namespace

bool make_key(const ir::Form& form, Key& key) {
  const std::size_t op = index_of(op_names, form.opcode);
  if (op == std::size(op_names) || form.types.size() > std::size(key.types)) return false;
  key.op = static_cast<Op>(op);
  for (const std::string& name : form.modifiers) {
    if (ir::type_of(name) != ir::Type::none) continue;
    if (index_of(rounding_names, name) != std::size(rounding_names)) continue;
    const std::size_t modifier = index_of(modifier_names, name);
    if (modifier == std::size(modifier_names)) return false;
    key.modifiers[modifier] = true;
  }
  std::copy(form.types.begin(), form.types.end(), key.types);
  key.type_count = static_cast<int>(form.types.size());
  key.rounding = form.rounding;
  key.destination_count = form.destination_count;
  key.source_count = form.source_count;
  key.destination_bits = form.destination_bits;
  key.source_bits = form.source_bits;
  key.reads_special = form.reads_special;
  return true;
}

}  // namespace flashmoe::vgpu::exec::ops
