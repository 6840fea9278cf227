// cvt with a floating-point type on one side or both (PTX ISA 9.7.9.21): every rounding, .sat, .relu, .satfinite, and
// the 8-bit formats. The forms that kernels are full of are in convert_variant.cpp; these are right first and fast
// second.
#include "vgpu/exec/ops/common.hpp"
#include "vgpu/exec/ops/formats.hpp"
#include "vgpu/exec/ops/integer_registers.hpp"

namespace flashmoe::vgpu::exec::ops::common {
namespace {

// What a form asks for, as a template argument: the functions of forms only hand it on.
struct Recipe {
  Type from = Type::none, to = Type::none;
  Rounding rounding = Rounding::none;
  bool ftz = false, sat = false, relu = false, satfinite = false;
};

bool is_wide(Type type) {
  return type == Type::f64;
}

// Any float as a double: exact.
double read_float(const Warp& warp, std::uint32_t slot, int lane, Type type, bool ftz) {
  if (type == Type::f64) return from_cell<double>(cells<double>(warp, slot)[lane]);
  const std::uint32_t bits = warp.slot(slot)[lane];
  if (type == Type::f16) return to_float(F16{static_cast<std::uint16_t>(bits)});
  if (type == Type::bf16) return to_float(BF16{static_cast<std::uint16_t>(bits)});
  return ftz ? flush<true>(float_of(bits)) : float_of(bits);
}

const Format& format_of(Type type) {
  switch (type) {
    case Type::f16:
    case Type::f16x2:
      return format_f16;
    case Type::bf16:
    case Type::bf16x2:
      return format_bf16;
    case Type::tf32:
      return format_tf32;
    case Type::f64:
      return format_f64;
    case Type::e4m3x2:
      return format_e4m3;
    case Type::e5m2x2:
      return format_e5m2;
    default:
      return format_f32;
  }
}

double to_integral(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::rni:
      return __builtin_nearbyint(x);
    case Rounding::rzi:
      return __builtin_trunc(x);
    case Rounding::rmi:
      return __builtin_floor(x);
    case Rounding::rpi:
      return __builtin_ceil(x);
    default:
      return x;
  }
}

std::uint64_t convert_number(double x, const Recipe& recipe) {
  double value = to_integral(x, recipe.rounding);
  if (recipe.sat) value = saturate<true>(value);
  if (recipe.relu && value <= 0) value = 0;
  std::uint64_t bits = round_into(format_of(recipe.to), value, recipe.rounding, recipe.satfinite);
  if (recipe.to == Type::tf32) bits <<= 13;
  if (recipe.ftz && recipe.to == Type::f32) bits = bits_of(flush<true>(float_of(static_cast<std::uint32_t>(bits))));
  return bits;
}

void write_bits(Warp& warp, std::uint32_t slot, int lane, std::uint64_t bits, bool wide) {
  if (wide) {
    cells<std::uint64_t>(warp, slot)[lane] = bits;
  } else {
    warp.slot(slot)[lane] = static_cast<std::uint32_t>(bits);
  }
}

[[gnu::noinline]] void float_to_float(Warp& warp, const Inst& inst, const Recipe& recipe) {
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    const double x = read_float(warp, inst.a, lane, recipe.from, recipe.ftz);
    write_bits(warp, inst.d, lane, convert_number(x, recipe), is_wide(recipe.to));
  }
}

// Two f32, or the two halves of an f16x2, into one register; the first source becomes the upper part.
[[gnu::noinline]] void two_floats(Warp& warp, const Inst& inst, const Recipe& recipe) {
  const int bits = format_of(recipe.to).sign_bit + 1;
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    double upper = 0, lower = 0;
    if (recipe.from == Type::f16x2) {
      const std::uint32_t pair = warp.slot(inst.a)[lane];
      upper = to_float(F16{static_cast<std::uint16_t>(pair >> 16)});
      lower = to_float(F16{static_cast<std::uint16_t>(pair)});
    } else {
      upper = read_float(warp, inst.a, lane, Type::f32, false);
      lower = read_float(warp, inst.b, lane, Type::f32, false);
    }
    write_bits(warp, inst.d, lane, convert_number(upper, recipe) << bits | convert_number(lower, recipe), false);
  }
}

// Everything but NaN becomes the nearest number of the type; NaN becomes 0, or the upper bit alone when the source is
// f64 or the destination has 64 bits (9.7.9.21, integer notes).
Int128 integer_of(double x, Type from, Rounding rounding, IntegerRegister to) {
  if (x != x) {
    if (from != Type::f64 && to.width != 64) return 0;
    return to.is_signed ? -(Int128{1} << (to.width - 1)) : Int128{1} << (to.width - 1);
  }
  const double value = to_integral(x, rounding);
  if (value >= 0x1p64) return clamped(Int128{1} << 65, to);
  if (value <= -0x1p64) return clamped(-(Int128{1} << 65), to);
  return clamped(static_cast<Int128>(value), to);
}

[[gnu::noinline]] void float_to_integer(Warp& warp, const Inst& inst, Type from, bool ftz, Rounding rounding,
                                        IntegerRegister to) {
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    write_integer(warp, inst.d, lane, to, integer_of(read_float(warp, inst.a, lane, from, ftz), from, rounding, to));
  }
}

[[gnu::noinline]] void integer_to_float(Warp& warp, const Inst& inst, IntegerRegister from, const Recipe& recipe) {
  for (int lane = 0; lane < lanes_per_warp; ++lane) {
    if (!bit(warp.exec, lane)) continue;
    Int128 value = read_integer(warp, inst.a, lane, from);
    if (recipe.sat) value = value < 0 ? 0 : value > 1 ? 1 : value;
    const bool negative = value < 0;
    const Exact exact{negative, static_cast<std::uint64_t>(negative ? -value : value), 0};
    const std::uint64_t bits = round_into(format_of(recipe.to), exact, recipe.rounding, false);
    write_bits(warp, inst.d, lane, bits, is_wide(recipe.to));
  }
}

template <Recipe R>
void run_float_to_float(Warp& warp, const Inst& inst) {
  float_to_float(warp, inst, R);
}
template <Recipe R>
void run_two_floats(Warp& warp, const Inst& inst) {
  two_floats(warp, inst, R);
}
template <Type From, bool Ftz, Rounding R, IntegerRegister To>
void run_float_to_integer(Warp& warp, const Inst& inst) {
  float_to_integer(warp, inst, From, Ftz, R, To);
}
template <IntegerRegister From, Recipe R>
void run_integer_to_float(Warp& warp, const Inst& inst) {
  integer_to_float(warp, inst, From, R);
}

// make<value>() for the first of the values that equals `wanted`.
template <auto... Values, class Wanted, class Make>
Handler with_value(Wanted wanted, Make make) {
  Handler found = nullptr;
  (void)((wanted == Values && ((found = make.template operator()<Values>()), true)) || ...);
  return found;
}
template <class Make>
Handler with_bool(bool wanted, Make make) {
  return wanted ? make.template operator()<true>() : make.template operator()<false>();
}

// A plain Recipe's fields are set one by one: sat, or ftz, or relu and satfinite, as the manual combines them.
template <Type From, Type To, Rounding R>
Handler find_recipe(const Key& key) {
  return with_bool(key.has(Modifier::sat), [&]<bool Sat>() {
    return with_bool(key.has(Modifier::ftz), [&]<bool Ftz>() -> Handler {
      return run_float_to_float<Recipe{.from = From, .to = To, .rounding = R, .ftz = Ftz, .sat = Sat}>;
    });
  });
}
template <Type From, Type To>
Handler find_narrow_recipe(const Key& key) {  // .relu and .satfinite
  return with_value<Rounding::rn, Rounding::rna, Rounding::rz>(key.rounding, [&]<Rounding R>() {
    return with_bool(key.has(Modifier::relu), [&]<bool Relu>() {
      return with_bool(key.has(Modifier::satfinite), [&]<bool Finite>() -> Handler {
        constexpr Recipe recipe{.from = From, .to = To, .rounding = R, .relu = Relu, .satfinite = Finite};
        constexpr bool two = To == Type::f16x2 || To == Type::bf16x2 || To == Type::e4m3x2 || To == Type::e5m2x2;
        if constexpr (two) return run_two_floats<recipe>;
        return run_float_to_float<recipe>;
      });
    });
  });
}

Handler between_floats(const Key& key) {
  const Type from = key.types[1], to = key.types[0];
  if (from == Type::f16x2) {
    return with_value<Type::e4m3x2, Type::e5m2x2>(to,
                                                  [&]<Type To>() { return find_narrow_recipe<Type::f16x2, To>(key); });
  }
  const bool narrow = key.has(Modifier::relu) || key.has(Modifier::satfinite);
  if (from == Type::f32 && (narrow || (to != Type::f16 && to != Type::bf16 && to != Type::f32 && to != Type::f64))) {
    return with_value<Type::f16, Type::bf16, Type::f16x2, Type::bf16x2, Type::tf32, Type::e4m3x2, Type::e5m2x2>(
        to, [&]<Type To>() { return find_narrow_recipe<Type::f32, To>(key); });
  }
  return with_value<Type::f16, Type::bf16, Type::f32, Type::f64>(from, [&]<Type From>() {
    return with_value<Type::f16, Type::bf16, Type::f32, Type::f64>(to, [&]<Type To>() {
      return with_value<Rounding::none, Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp, Rounding::rni,
                        Rounding::rzi, Rounding::rmi, Rounding::rpi>(
          key.rounding, [&]<Rounding R>() { return find_recipe<From, To, R>(key); });
    });
  });
}

Handler to_integer(const Key& key) {
  return with_value<Type::f16, Type::bf16, Type::f32, Type::f64>(key.types[1], [&]<Type From>() {
    return with_value<Rounding::rni, Rounding::rzi, Rounding::rmi, Rounding::rpi>(key.rounding, [&]<Rounding R>() {
      return with_register(destination_register(key), [&]<IntegerRegister To>() -> Handler {
        return key.has(Modifier::ftz) ? run_float_to_integer<From, true, R, To>
                                      : run_float_to_integer<From, false, R, To>;
      });
    });
  });
}

Handler from_integer(const Key& key) {
  return with_value<Type::f16, Type::bf16, Type::f32, Type::f64>(key.types[0], [&]<Type To>() {
    return with_value<Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp>(key.rounding, [&]<Rounding R>() {
      return with_register(source_register(key), [&]<IntegerRegister From>() -> Handler {
        return key.has(Modifier::sat) ? run_integer_to_float<From, Recipe{.to = To, .rounding = R, .sat = true}>
                                      : run_integer_to_float<From, Recipe{.to = To, .rounding = R}>;
      });
    });
  });
}

}  // namespace

Handler find_float_convert(const Key& key) {
  if (key.op != Op::cvt || key.type_count != 2 || key.has(Modifier::pack)) return nullptr;
  const bool from_int = width_of(key.types[1]) != 0, to_int = width_of(key.types[0]) != 0;
  if (from_int && to_int) return nullptr;
  return to_int ? to_integer(key) : from_int ? from_integer(key) : between_floats(key);
}

}  // namespace flashmoe::vgpu::exec::ops::common
