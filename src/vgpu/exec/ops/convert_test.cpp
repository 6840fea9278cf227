// cvt: halves and 8-bit floats from every pattern, narrowing in every direction, integers with and without .sat.
#include <cmath>

#include "vgpu/exec/ops/harness_test.hpp"
#include "vgpu/exec/ops/reference_test.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

// Runs a form of one source on every pattern of `bits` bits.
template <class Check>
void for_every_pattern(const char* text, int bits, Check check) {
  for (const Isa isa : isas_of_host()) {
    const ir::Handler run = arithmetic_handler_for(form_of(text), isa);
    ASSERT_NE(run, nullptr) << text;
    TestWarp test;
    ir::Inst inst;
    inst.d = d_slot, inst.a = a_slot;
    for (std::uint64_t first = 0; first < 1ull << bits; first += lanes_per_warp) {
      for (int lane = 0; lane < lanes_per_warp; ++lane) test.set(a_slot, lane, first + lane, false);
      run(test.warp, inst);
      for (int lane = 0; lane < lanes_per_warp; ++lane) check(first + lane, test.get(d_slot, lane, false), isa);
      if (testing::Test::HasFailure()) return;
    }
  }
}

std::uint64_t as_f32(Quad x, bool negative) {
  return is_nan(x) ? 0x7fffffffu : encode(x, negative, reference_f32, Toward::nearest_even);
}
std::uint64_t as_f16(Quad x, bool negative) {
  return is_nan(x) ? 0x7fffu : encode(x, negative, reference_f16, Toward::nearest_even);
}

TEST(Convert, EveryHalfToFloat) {
  for_every_pattern("cvt.f32.f16", 16, [](auto a, auto d, Isa isa) {
    EXPECT_EQ(d, as_f32(decode(a, reference_f16), sign_of(a, reference_f16))) << std::hex << a << name_of(isa);
  });
  for_every_pattern("cvt.f32.bf16", 16, [](auto a, auto d, Isa isa) {
    EXPECT_EQ(d, as_f32(decode(a, reference_bf16), sign_of(a, reference_bf16))) << std::hex << a << name_of(isa);
  });
}

TEST(Convert, EveryPairOfBytes) {
  const auto pair = [](std::uint64_t a, const ReferenceFormat& f) {
    const auto one = [&](std::uint64_t byte) { return as_f16(decode(byte, f), sign_of(byte, f)); };
    return one(a & 0xffu) | one(a >> 8) << 16;
  };
  for_every_pattern("cvt.rn.f16x2.e4m3x2", 16, [&](auto a, auto d, Isa isa) {
    EXPECT_EQ(d, pair(a, reference_e4m3)) << std::hex << a << name_of(isa);
  });
  for_every_pattern("cvt.rn.f16x2.e5m2x2", 16, [&](auto a, auto d, Isa isa) {
    EXPECT_EQ(d, pair(a, reference_e5m2)) << std::hex << a << name_of(isa);
  });
}

// .satfinite: beyond the largest is the largest, NaN stays NaN.
std::uint64_t as_byte(Quad x, bool negative, const ReferenceFormat& f) {
  if (is_nan(x)) return 0x7f;
  const std::uint64_t largest = f.precision == 4 ? 0x7e : 0x7b;
  const Quad limit = decode(largest, f), magnitude = x < 0 ? -x : x;
  const std::uint64_t sign = negative ? 0x80 : 0;
  if (magnitude >= limit) return sign | largest;
  return encode(x, negative, f, Toward::nearest_even);
}

TEST(Convert, IntoBytes) {
  for (const bool e4m3 : {false, true}) {
    const ReferenceFormat& f = e4m3 ? reference_e4m3 : reference_e5m2;
    const std::string name = e4m3 ? "e4m3x2" : "e5m2x2";
    const auto from_f32 = [&](std::uint64_t bits) {
      return as_byte(decode(bits, reference_f32), sign_of(bits, reference_f32), f);
    };
    const auto from_f16 = [&](std::uint64_t bits) {
      return as_byte(decode(bits, reference_f16), sign_of(bits, reference_f16), f);
    };
    check_op("cvt.rn.satfinite." + name + ".f32", 16, {32, 32},
             [&](auto a, auto b, auto, auto) { return from_f32(a) << 8 | from_f32(b); });
    check_op("cvt.rn.satfinite." + name + ".f16x2", 16, {32},
             [&](auto a, auto, auto, auto) { return from_f16(a >> 16) << 8 | from_f16(a & 0xffffu); });
  }
}

struct Direction {
  const char* name;
  Toward toward;
};
constexpr Direction directions[] = {
    {"rn", Toward::nearest_even}, {"rz", Toward::zero}, {"rm", Toward::down}, {"rp", Toward::up}};

TEST(Convert, FloatToHalf) {
  for (const auto& half : {std::pair{"f16", reference_f16}, std::pair{"bf16", reference_bf16}}) {
    const char* const name = half.first;
    const auto& format = half.second;
    const auto narrow = [&](std::uint64_t bits, Toward toward) {
      const Quad x = decode(bits, reference_f32);
      return is_nan(x) ? 0x7fffu : encode(x, sign_of(bits, reference_f32), format, toward);
    };
    for (const Direction& direction : directions) {
      check_op(
          std::string("cvt.") + direction.name + "." + name + ".f32", 16, {32},
          [&](auto a, auto, auto, auto) { return narrow(a, direction.toward); }, Equality::exact, 120);
    }
    for (const Direction& direction : {directions[0], directions[1]}) {
      check_op(
          std::string("cvt.") + direction.name + "." + name + "x2.f32", 32, {32, 32},
          [&](auto a, auto b, auto, auto) { return narrow(a, direction.toward) << 16 | narrow(b, direction.toward); });
      check_op(std::string("cvt.") + direction.name + ".relu." + name + "x2.f32", 32, {32, 32},
               [&](auto a, auto b, auto, auto) {
                 const auto rectified = [&](std::uint64_t bits) {
                   return decode(bits, reference_f32) <= 0 ? std::uint64_t{0} : narrow(bits, direction.toward);
                 };
                 return rectified(a) << 16 | rectified(b);
               });
    }
  }
  check_op("cvt.rna.tf32.f32", 32, {32}, [](auto a, auto, auto, auto) -> std::uint64_t {
    const Quad x = decode(a, reference_f32);
    return is_nan(x) ? 0x7fffe000u : encode(x, sign_of(a, reference_f32), reference_tf32, Toward::nearest_away) << 13;
  });
  for (const Direction& direction : directions) {
    check_op(
        std::string("cvt.") + direction.name + ".f32.f64", 32, {64},
        [&](auto a, auto, auto, auto) -> std::uint64_t {
          const double x = as<double>(a);
          return std::isnan(x) ? 0x7fffffffu : encode(x, std::signbit(x), reference_f32, direction.toward);
        },
        Equality::f32, 40);
  }
}

__extension__ typedef __int128 Whole;  // NOLINT(modernize-use-using): __extension__ wants a declaration

struct ConvertedType {
  const char* name;
  int width;
  bool is_signed;
};
constexpr ConvertedType converted_types[] = {{"u8", 8, false},   {"s8", 8, true},    {"u16", 16, false},
                                             {"s16", 16, true},  {"u32", 32, false}, {"s32", 32, true},
                                             {"u64", 64, false}, {"s64", 64, true}};

Whole whole_number(std::uint64_t bits, const ConvertedType& t) {
  const Whole value = static_cast<Whole>(t.width == 64 ? bits : bits & ((1ull << t.width) - 1));
  return t.is_signed && (value >> (t.width - 1) & 1) != 0 ? value - (Whole{1} << t.width) : value;
}
Whole clamp(Whole value, const ConvertedType& t) {
  const Whole most = (Whole{1} << (t.is_signed ? t.width - 1 : t.width)) - 1,
              least = t.is_signed ? -most - 1 : Whole{0};
  return value < least ? least : value > most ? most : value;
}
// As it lies in a register of the type's own width (8-bit types: 16), zeros above.
std::uint64_t in_register(Whole value, const ConvertedType& t) {
  const int width = t.width == 8 && t.is_signed ? 16 : t.width;
  const auto cut = static_cast<std::uint64_t>(whole_number(static_cast<std::uint64_t>(value), t));
  return width == 64 ? cut : cut & ((1ull << width) - 1);
}
int register_width(const ConvertedType& t) {
  return t.width == 64 ? 64 : 32;
}

TEST(Convert, BetweenIntegers) {
  for (const ConvertedType& from : converted_types) {
    for (const ConvertedType& to : converted_types) {
      const std::string types = std::string(".") + to.name + "." + from.name;
      check_op(
          "cvt" + types, register_width(to), {register_width(from)},
          [&](auto a, auto, auto, auto) { return in_register(whole_number(a, from), to); }, Equality::exact, 6);
      check_op(
          "cvt.sat" + types, register_width(to), {register_width(from)},
          [&](auto a, auto, auto, auto) { return in_register(clamp(whole_number(a, from), to), to); }, Equality::exact,
          6);
    }
  }
}

TEST(Convert, IntegersAndFloats) {
  for (const ConvertedType& type : converted_types) {
    for (const Direction& direction : directions) {
      check_op(
          std::string("cvt.") + direction.name + ".f32." + type.name, 32, {register_width(type)},
          [&](auto a, auto, auto, auto) {
            const Whole value = whole_number(a, type);
            return encode(static_cast<Quad>(value), value < 0, reference_f32, direction.toward);
          },
          Equality::exact, 12);
    }
    const struct {
      const char* name;
      double (*round)(double);
    } to_integer[] = {{"rni", std::nearbyint}, {"rzi", std::trunc}, {"rmi", std::floor}, {"rpi", std::ceil}};
    for (const auto& rounding : to_integer) {
      const auto convert = [&](double x, bool is_f64) {
        // NaN: 0, or the upper bit alone from f64 or to 64 bits (9.7.9.21, integer notes).
        if (std::isnan(x) && !is_f64 && type.width != 64) return std::uint64_t{0};
        if (std::isnan(x)) return in_register((type.is_signed ? Whole{-1} : Whole{1}) << (type.width - 1), type);
        const double whole = std::fmin(std::fmax(rounding.round(x), -0x1p70), 0x1p70);
        return in_register(clamp(static_cast<Whole>(whole), type), type);
      };
      check_op(
          std::string("cvt.") + rounding.name + "." + type.name + ".f32", register_width(type), {32},
          [&](auto a, auto, auto, auto) { return convert(as<float>(static_cast<std::uint32_t>(a)), false); },
          Equality::exact, 24);
      check_op(
          std::string("cvt.") + rounding.name + "." + type.name + ".f64", register_width(type), {64},
          [&](auto a, auto, auto, auto) { return convert(as<double>(a), true); }, Equality::exact, 12);
    }
  }
}

TEST(Convert, RegistersWiderThanTheirType) {  // cvt.s8.s32 into a 32-bit register keeps the sign up to bit 31
  ir::Form form = form_of("cvt.s8.s32");
  for (const int bits : {16, 32, 64}) {
    form.destination_bits = bits;
    TestWarp test;
    test.set(a_slot, 0, 0x80, false);
    ir::Inst inst;
    inst.d = d_slot, inst.a = a_slot;
    arithmetic_handler_for(form, Isa::baseline)(test.warp, inst);
    EXPECT_EQ(test.get(d_slot, 0, bits == 64), bits == 16 ? 0xff80u : bits == 32 ? 0xffffff80u : ~std::uint64_t{0x7f});
  }
  form = form_of("cvt.u32.u16");
  form.source_bits = 64;
  TestWarp test;
  test.set(a_slot, 1, 0xabcd1234567890ull, true);
  ir::Inst inst;
  inst.d = d_slot, inst.a = a_slot;
  arithmetic_handler_for(form, Isa::baseline)(test.warp, inst);
  EXPECT_EQ(test.get(d_slot, 1, false), 0x7890u);
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
