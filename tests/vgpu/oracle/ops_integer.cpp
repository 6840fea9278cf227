// Integer arithmetic: PTX ISA 9.7.1 and 9.7.2 (extended precision).
#include <algorithm>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

bool is_integer(std::string_view type) {
  return (type[0] == 'u' || type[0] == 's') && !type.ends_with("x2");
}

Signed value_of(Bits bits, std::string_view type) {
  return type[0] == 's' ? sign_extend(bits, type_bits(type)) : static_cast<Signed>(bits & mask_of(type_bits(type)));
}

Signed clamp_to(Signed value, std::string_view type) {
  const int bits = type_bits(type);
  const Signed least = type[0] == 's' ? -(Signed{1} << (bits - 1)) : 0;
  const Signed most = type[0] == 's' ? (Signed{1} << (bits - 1)) - 1 : (Signed{1} << bits) - 1;
  return std::clamp(value, least, most);
}

void finish(Step& s, std::string_view type, Signed value) {
  if (s.has("sat")) value = clamp_to(value, type);
  s.write_as(s.operand(0), type, static_cast<Bits>(value));
}

// The product of two 64-bit numbers fits in 128 bits, as bits: of unsigned ones it may look negative.
Signed product(Step& s, std::string_view type) {
  return static_cast<Signed>(static_cast<Bits>(value_of(s.read(1, type), type)) *
                             static_cast<Bits>(value_of(s.read(2, type), type)));
}

// .hi and .lo are halves of the product; .wide is all of it.
Signed part_of_product(Step& s, std::string_view type, Signed full) {
  const int bits = type_bits(type);
  if (s.has("hi")) {
    const Bits high = static_cast<Bits>(full) >> bits;
    return value_of(high & mask_of(bits), type);
  }
  if (s.has("wide")) return full;
  if (s.has("lo")) return value_of(static_cast<Bits>(full) & mask_of(bits), type);
  s.unknown("neither .hi, .lo nor .wide");
}

std::string twice_as_wide(std::string_view type) {
  return std::string(type.substr(0, 1)) + std::to_string(2 * type_bits(type));
}

bool multiply_op(Step& s) {
  const std::string_view type = s.type();
  const std::string_view opcode = s.instruction.opcode;
  const std::string result = s.has("wide") ? twice_as_wide(type) : std::string(type);
  if (opcode == "mul24" || opcode == "mad24") {
    const auto low24 = [&](std::size_t i) {
      return type[0] == 's' ? sign_extend(s.read(i, type), 24) : static_cast<Signed>(s.read(i, type) & 0xffffff);
    };
    const Signed full = low24(1) * low24(2);
    Signed value = s.has("hi") ? full >> 16 : full;
    value = value_of(static_cast<Bits>(value) & mask_of(32), type);
    if (opcode == "mad24") value += value_of(s.read(3, type), type);
    finish(s, type, value);
    return true;
  }
  Signed value = part_of_product(s, type, product(s, type));
  if (opcode == "mad") value += value_of(s.read(3, result), result);
  finish(s, result, value);
  return true;
}

// add.cc, addc, sub.cc, subc, mad.cc, madc: CC.CF is the carry of a sum and the borrow of a difference.
bool extended_op(Step& s) {
  const std::string_view type = s.type();
  const std::string_view opcode = s.instruction.opcode;
  const int bits = type_bits(type);
  const bool takes_carry = opcode.ends_with('c');
  const Bits carry = takes_carry && s.thread.carry ? 1 : 0;
  Bits result = 0;
  bool out = false;
  if (opcode.starts_with("sub")) {
    const Signed full =
        static_cast<Signed>(s.read(1, type)) - static_cast<Signed>(s.read(2, type)) - static_cast<Signed>(carry);
    result = static_cast<Bits>(full);
    out = full < 0;
  } else {
    Bits full = 0;
    if (opcode.starts_with("mad"))
      full = (static_cast<Bits>(part_of_product(s, type, product(s, type))) & mask_of(bits)) + s.read(3, type) + carry;
    else
      full = s.read(1, type) + s.read(2, type) + carry;
    result = full;
    out = (full >> bits) != 0;
  }
  if (s.has("cc")) s.thread.carry = out;
  s.write_as(s.operand(0), type, result);
  return true;
}

// Two 16-bit numbers in one register.
bool packed_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  const std::string_view whole = s.type();
  const std::string_view half = whole.substr(0, 3);
  Bits result = 0;
  for (int part = 0; part < 2; ++part) {
    const Signed a = value_of(s.read(1, whole) >> (16 * part), half);
    const Signed b = value_of(s.read(2, whole) >> (16 * part), half);
    Signed value = opcode == "add" ? a + b : opcode == "min" ? std::min(a, b) : std::max(a, b);
    if (s.has("relu")) value = std::max<Signed>(value, 0);
    result |= (static_cast<Bits>(value) & 0xffff) << (16 * part);
  }
  s.write(0, result);
  return true;
}

bool dot_product(Step& s) {
  const std::string_view a_type = s.type(0), b_type = s.type(1);
  const bool four = s.instruction.opcode == "dp4a";
  const bool is_signed = a_type[0] == 's' || b_type[0] == 's';
  const std::string a_part = std::string(a_type.substr(0, 1)) + (four ? "8" : "16"),
                    b_part = std::string(b_type.substr(0, 1)) + "8";
  const Bits a = s.read(1, a_type), b = s.read(2, b_type);
  Signed sum = value_of(s.read(3, is_signed ? "s32" : "u32"), is_signed ? "s32" : "u32");
  const int first = s.has("hi") ? 2 : 0;
  for (int i = 0; i < (four ? 4 : 2); ++i) {
    const int a_at = i * (four ? 8 : 16);
    sum += value_of(a >> a_at, a_part) * value_of(b >> (8 * (first + i)), b_part);
  }
  s.write(0, static_cast<Bits>(sum));
  return true;
}

}  // namespace

bool integer_op(Step& s) {
  const std::string_view opcode = s.instruction.opcode;
  if (opcode == "dp4a" || opcode == "dp2a") return dot_product(s);
  static const std::vector<std::string> mine = {"add", "sub", "mul", "mad",   "div",   "rem",  "abs",  "neg",
                                                "min", "max", "sad", "mul24", "mad24", "addc", "subc", "madc"};
  if (std::find(mine.begin(), mine.end(), opcode) == mine.end()) return false;
  const std::string_view type = s.type();
  if ((type == "u16x2" || type == "s16x2") && (opcode == "add" || opcode == "min" || opcode == "max"))
    return packed_op(s);
  if (!is_integer(type)) return false;
  if (s.has("cc") || opcode == "addc" || opcode == "subc" || opcode == "madc") return extended_op(s);
  if (opcode.starts_with("mul") || opcode.starts_with("mad")) return multiply_op(s);

  const Signed a = value_of(s.read(1, type), type);
  if (opcode == "abs") {
    finish(s, type, a < 0 ? -a : a);
    return true;
  }
  if (opcode == "neg") {
    finish(s, type, -a);
    return true;
  }
  const Signed b = value_of(s.read(2, type), type);
  if (opcode == "add") finish(s, type, a + b);
  if (opcode == "sub") finish(s, type, a - b);
  if (opcode == "sad") finish(s, type, value_of(s.read(3, type), type) + (a < b ? b - a : a - b));
  if (opcode == "div" || opcode == "rem") {
    if (b == 0) s.unknown("a division by zero has no defined result");
    finish(s, type, opcode == "div" ? a / b : a % b);
  }
  if (opcode == "min" || opcode == "max") {
    Signed value = opcode == "min" ? std::min(a, b) : std::max(a, b);
    if (s.has("relu")) value = std::max<Signed>(value, 0);
    finish(s, type, value);
  }
  return true;
}

}  // namespace flashmoe::vgpu::oracle
