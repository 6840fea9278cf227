// Logic and shifts (PTX ISA 9.7.8), bit fields and counts (9.7.1.14 and on), prmt (9.7.9.7).
#include <algorithm>
#include <array>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

bool bit(Bits value, int place) {
  return (value >> place & 1) != 0;
}

// and, or, xor, not, cnot: of bits or of predicates.
bool bitwise_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode != "and" && opcode != "or" && opcode != "xor" && opcode != "not" && opcode != "cnot") return false;
  const std::string_view type = s.type();
  const auto source = [&](std::size_t i) -> Bits { return type == "pred" ? Bits{s.predicate(i)} : s.read(i, type); };
  const Bits a = source(1);
  Bits value = 0;
  if (opcode == "not") value = ~a & mask_of(type_bits(type));
  if (opcode == "cnot") value = a == 0 ? 1 : 0;
  if (opcode == "and") value = a & source(2);
  if (opcode == "or") value = a | source(2);
  if (opcode == "xor") value = a ^ source(2);
  s.write(0, value);
  return true;
}

bool shift_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode != "shl" && opcode != "shr") return false;
  const std::string_view type = s.type();
  const int bits = type_bits(type);
  // Amounts beyond the width are clamped to it.
  const int amount = static_cast<int>(std::min<Bits>(s.read(2, "u32"), static_cast<Bits>(bits)));
  const Bits a = s.read(1, type);
  if (opcode == "shl")
    s.write_as(s.operand(0), type, a << amount);
  else
    s.write_as(s.operand(0), type, type[0] == 's' ? static_cast<Bits>(sign_extend(a, bits) >> amount) : a >> amount);
  return true;
}

void funnel_shift(Step& s) {
  const Bits joined = s.read(2, "b32") << 32 | s.read(1, "b32");
  const Bits amount = s.read(3, "u32");
  const int n = static_cast<int>(s.has("wrap") ? amount & 31 : std::min<Bits>(amount, 32));
  s.write(0, s.has("l") ? joined << n >> 32 : joined >> n);
}

void lop3(Step& s) {
  const std::size_t first = 1;
  const Bits a = s.read(first, "b32"), b = s.read(first + 1, "b32"), c = s.read(first + 2, "b32");
  const Bits table = s.read(first + 3, "b32");
  Bits value = 0;
  for (int i = 0; i < 32; ++i) {
    const int row = (bit(a, i) ? 4 : 0) | (bit(b, i) ? 2 : 0) | (bit(c, i) ? 1 : 0);
    if (bit(table, row)) value |= Bits{1} << i;
  }
  if (s.operand(0).kind != ptx::Operand::Kind::predicate_pair) {
    s.write(0, value);
    return;
  }
  // lop3.BoolOp d|p, a, b, c, table, q: p = (d != 0) BoolOp q
  const bool q = s.predicate(first + 4);
  s.write(s.operand(0).parts.at(0), value);
  s.write(s.operand(0).parts.at(1), s.has("and") ? value != 0 && q : value != 0 || q);
}

void permute(Step& s) {
  const Bits bytes = s.read(2, "b32") << 32 | s.read(1, "b32");
  const Bits control = s.read(3, "b32");
  const auto n = static_cast<std::size_t>(control & 3);
  // Which byte goes to d.b0, d.b1, d.b2, d.b3, by the two low bits of the control (PTX ISA, table of prmt's modes).
  using Choice = std::array<int, 4>;
  static const std::array<Choice, 4> forward{{{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}};
  static const std::array<Choice, 4> backward{{{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}};
  static const std::array<Choice, 4> replicate8{{{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}};
  static const std::array<Choice, 4> clamp_left{{{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}};
  static const std::array<Choice, 4> clamp_right{{{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}};
  static const std::array<Choice, 4> replicate16{{{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}};
  Choice choice{};
  std::array<bool, 4> sign{};
  if (s.has("f4e")) {
    choice = forward[n];
  } else if (s.has("b4e")) {
    choice = backward[n];
  } else if (s.has("rc8")) {
    choice = replicate8[n];
  } else if (s.has("ecl")) {
    choice = clamp_left[n];
  } else if (s.has("ecr")) {
    choice = clamp_right[n];
  } else if (s.has("rc16")) {
    choice = replicate16[n];
  } else {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto selector = static_cast<int>(control >> (4 * i) & 15);
      choice[i] = selector & 7;
      sign[i] = (selector & 8) != 0;
    }
  }
  Bits value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    Bits byte = bytes >> (8 * choice[i]) & 0xff;
    if (sign[i]) byte = (byte & 0x80) != 0 ? 0xff : 0;
    value |= byte << (8 * i);
  }
  s.write(0, value);
}

void extract_field(Step& s) {
  const std::string_view type = s.type();
  const int msb = type_bits(type) - 1;
  const Bits a = s.read(1, type);
  const int position = static_cast<int>(s.read(2, "u32") & 0xff), length = static_cast<int>(s.read(3, "u32") & 0xff);
  const bool sign = type[0] == 's' && length != 0 && bit(a, std::min(position + length - 1, msb));
  Bits value = 0;
  for (int i = 0; i <= msb; ++i)
    if (i < length && position + i <= msb ? bit(a, position + i) : sign) value |= Bits{1} << i;
  s.write(0, value);
}

void insert_field(Step& s) {
  const std::string_view type = s.type();
  const int msb = type_bits(type) - 1;
  const Bits a = s.read(1, type);
  Bits value = s.read(2, type);
  const int position = static_cast<int>(s.read(3, "u32") & 0xff), length = static_cast<int>(s.read(4, "u32") & 0xff);
  for (int i = 0; i < length && position + i <= msb; ++i) {
    value &= ~(Bits{1} << (position + i));
    if (bit(a, i)) value |= Bits{1} << (position + i);
  }
  s.write(0, value);
}

void find_leading(Step& s) {
  const std::string_view type = s.type();
  const int msb = type_bits(type) - 1;
  Bits a = s.read(1, type);
  if (type[0] == 's' && bit(a, msb)) a = ~a;
  Bits value = 0xffffffff;
  for (int i = msb; i >= 0; --i)
    if (bit(a, i)) {
      value = static_cast<Bits>(s.has("shiftamt") ? msb - i : i);
      break;
    }
  s.write(0, value);
}

void find_nth_set(Step& s) {
  const Bits mask = s.read(1, "b32");
  const auto base = static_cast<int>(s.read(2, "u32"));
  const auto offset = static_cast<int>(sign_extend(s.read(3, "b32"), 32));
  Bits value = 0xffffffff;
  if (offset == 0) {
    if (bit(mask, base)) value = static_cast<Bits>(base);
  } else {
    int left = (offset < 0 ? -offset : offset) - 1;
    for (int i = base; i >= 0 && i<32; i += offset> 0 ? 1 : -1)
      if (bit(mask, i) && left-- == 0) {
        value = static_cast<Bits>(i);
        break;
      }
  }
  s.write(0, value);
}

void bit_mask(Step& s) {
  const Bits start = s.read(1, "u32"), width = s.read(2, "u32");
  Bits from = mask_of(32) << (start & 31) & mask_of(32);
  const Bits end = (start & 31) + (width & 31);
  bool overflow = end >= 32;
  if (s.has("clamp")) {
    if (start >= 32) from = 0;
    overflow = overflow || start >= 32 || width >= 32;
  }
  const Bits beyond = overflow ? 0 : mask_of(32) << static_cast<int>(end) & mask_of(32);
  s.write(0, from & ~beyond);
}

void extend_bits(Step& s) {
  const Bits a = s.read(1, "b32"), b = s.read(2, "u32");
  const bool too_large = s.has("clamp") && b >= 32;
  const int kept = static_cast<int>(b & 31);
  const Bits above = too_large ? 0 : mask_of(32) << kept & mask_of(32);
  const bool sign = s.type() == "s32" && kept != 0 && !too_large && bit(a, kept - 1);
  s.write(0, (a & ~above) | (sign ? above : 0));
}

void count_bits(Step& s) {
  const std::string_view type = s.type();
  const int bits = type_bits(type);
  const Bits a = s.read(1, type);
  Bits value = 0;
  if (s.instruction.opcode == "popc")
    for (int i = 0; i < bits; ++i) value += bit(a, i) ? 1 : 0;
  if (s.instruction.opcode == "clz")
    for (int i = bits - 1; i >= 0 && !bit(a, i); --i) ++value;
  if (s.instruction.opcode == "brev")
    for (int i = 0; i < bits; ++i)
      if (bit(a, i)) value |= Bits{1} << (bits - 1 - i);
  s.write(0, value);
}

}  // namespace

bool logic_op(Step& s) {
  if (bitwise_op(s) || shift_op(s)) return true;
  using Op = void (*)(Step&);
  static const std::map<std::string, Op> ops = {{"shf", funnel_shift},  {"lop3", lop3},        {"prmt", permute},
                                                {"bfe", extract_field}, {"bfi", insert_field}, {"bfind", find_leading},
                                                {"fns", find_nth_set},  {"bmsk", bit_mask},    {"szext", extend_bits},
                                                {"popc", count_bits},   {"clz", count_bits},   {"brev", count_bits}};
  const auto op = ops.find(s.instruction.opcode);
  if (op == ops.end()) return false;
  op->second(s);
  return true;
}

}  // namespace flashmoe::vgpu::oracle
