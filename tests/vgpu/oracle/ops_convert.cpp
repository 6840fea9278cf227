// cvt and cvt.pack: PTX ISA 9.7.9.21 and 9.7.9.22.
#include <algorithm>

#include "vgpu/oracle/step.hpp"

namespace flashmoe::vgpu::oracle {

namespace {

bool is_float(std::string_view type) {
  return type[0] == 'f' || type.starts_with("bf") || type[0] == 'e' || type == "tf32";
}

bool rounds_to_integer(const Step& s) {
  return s.has("rni") || s.has("rzi") || s.has("rmi") || s.has("rpi");
}

Signed least(std::string_view type) {
  return type[0] == 's' ? -(Signed{1} << (type_bits(type) - 1)) : 0;
}
Signed most(std::string_view type) {
  return type[0] == 's' ? (Signed{1} << (type_bits(type) - 1)) - 1 : (Signed{1} << type_bits(type)) - 1;
}

Number source_number(const Step& s, std::string_view type, Bits bits) {
  const Format format = format_of(type);
  // .ftz concerns single precision only.
  if (s.has("ftz") && type == "f32") bits = flush_subnormal(bits, format);
  return decode(bits, format);
}

Bits to_float(const Step& s, std::string_view type, Number value) {
  const Format format = format_of(type);
  if (rounds_to_integer(s)) {
    const bool negative = value.negative;
    value = round_to_integer(value, s.round());
    value.negative = negative;
  }
  if (s.has("satfinite") && !value.is_nan()) {
    Number limit = greatest(format);
    limit.negative = value.negative;
    const Number rounded = decode(encode(value, format, s.round()), format);
    if (value.is_infinite() || rounded.is_infinite() || rounded.is_nan()) value = limit;
  }
  Bits bits = encode(value, format, s.round());
  if (s.has("ftz") && type == "f32") bits = flush_subnormal(bits, format);
  const Number result = decode(bits, format);
  if (s.has("sat")) {
    if (result.is_nan() || result.negative || result.is_zero()) return 0;
    const Number one = integer(false, 1);
    if (order(result, one) > 0) return encode(one, format, Round::zero);
  }
  if (s.has("relu") && !result.is_nan() && result.negative) return 0;
  return bits;
}

Bits float_to_integer(const Step& s, std::string_view to, std::string_view from, Bits bits) {
  const Number value = source_number(s, from, bits);
  if (value.is_nan()) {
    const bool wide = from == "f64" || type_bits(to) == 64;
    return wide ? Bits{1} << (type_bits(to) - 1) : 0;
  }
  const Number high = integer(false, static_cast<Bits>(most(to)));
  const Number low = integer(true, static_cast<Bits>(-least(to)));
  const Number rounded = round_to_integer(value, s.round());
  if (order(rounded, high) >= 0) return static_cast<Bits>(most(to));
  if (order(rounded, low) <= 0) return static_cast<Bits>(least(to));
  // Within the range of the type now, so it fits in 64 bits and its exponent is small.
  const Natural magnitude =
      rounded.exponent > 0 ? rounded.magnitude << rounded.exponent : rounded.magnitude >> -rounded.exponent;
  return rounded.negative ? ~magnitude.low() + 1 : magnitude.low();
}

Bits convert(const Step& s, std::string_view to, std::string_view from, Bits bits) {
  if (is_float(to) && is_float(from)) return to_float(s, to, source_number(s, from, bits));
  if (is_float(from)) return float_to_integer(s, to, from, bits);
  Signed value = from[0] == 's' ? sign_extend(bits, type_bits(from)) : static_cast<Signed>(bits);
  if (is_float(to)) return to_float(s, to, integer(value < 0, static_cast<Bits>(value < 0 ? -value : value)));
  if (s.has("sat")) value = std::clamp(value, least(to), most(to));
  return static_cast<Bits>(value);
}

void pack(Step& s) {
  const std::string_view to = s.instruction.modifiers.at(2), from = "s32";
  const int bits = std::stoi(std::string(to.substr(1)));
  const auto part = [&](std::size_t i) {
    const Signed high = to[0] == 's' ? (Signed{1} << (bits - 1)) - 1 : (Signed{1} << bits) - 1;
    const Signed low = to[0] == 's' ? -(Signed{1} << (bits - 1)) : 0;
    return static_cast<Bits>(std::clamp(sign_extend(s.read(i, from), 32), low, high)) & mask_of(bits);
  };
  Bits value = part(1) << bits | part(2);
  if (s.operands() > 3) value |= s.read(3, "b32") << (2 * bits);
  s.write(0, value & mask_of(32));
}

}  // namespace

bool convert_op(Step& s) {
  if (s.instruction.opcode != "cvt") return false;
  if (s.has("pack")) {
    pack(s);
    return true;
  }
  const std::string_view to = s.type(0), from = s.type(1);
  if (to.ends_with("x2")) {
    const std::string_view half = to.substr(0, to.size() - 2);
    const int bits = type_bits(to) / 2;
    // Two sources: the first becomes the upper half. One packed source: half by half.
    Bits high = 0, low = 0;
    if (from.ends_with("x2")) {
      const std::string_view from_half = from.substr(0, from.size() - 2);
      const int from_bits = type_bits(from) / 2;
      const Bits a = s.read(1, from_bits == 16 ? "b32" : "b16");
      high = convert(s, half, from_half, a >> from_bits);
      low = convert(s, half, from_half, a & mask_of(from_bits));
    } else {
      high = convert(s, half, from, s.read(1, from));
      low = convert(s, half, from, s.read(2, from));
    }
    s.write(0, high << bits | low);
    return true;
  }
  s.write_as(s.operand(0), to, convert(s, to, from, s.read(1, from)));
  return true;
}

}  // namespace flashmoe::vgpu::oracle
