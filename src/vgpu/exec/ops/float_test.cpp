// f32 in every rounding, flushed and saturated; f16 and bf16, alone and in pairs; minimum and maximum; approximations.
#include <cfenv>
#include <cmath>

#include "vgpu/exec/ops/harness_test.hpp"
#include "vgpu/exec/ops/reference_test.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

float f32(std::uint64_t bits) {
  return as<float>(static_cast<std::uint32_t>(bits));
}
std::uint64_t bits32(float x) {
  return as<std::uint32_t>(x);
}
double f64(std::uint64_t bits) {
  return as<double>(bits);
}
float flushed(float x, bool ftz) {
  return ftz && std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

struct RoundingName {
  const char* name;
  int mode;
};
constexpr RoundingName roundings[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

template <class T, class Function>
T rounding_as(int mode, Function function) {
  std::fesetround(mode);
  volatile T result = function();
  std::fesetround(FE_TONEAREST);
  return result;
}

template <class Function>
void check_f32(const std::string& name, int sources, Function function, bool may_saturate) {
  for (const RoundingName& rounding : roundings) {
    for (const bool ftz : {false, true}) {
      for (const bool sat : {false, true}) {
        if (sat && !may_saturate) continue;
        const std::string text = name + "." + rounding.name + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32";
        check_op(
            text, 32, std::vector<int>(sources, 32),
            [&](auto a, auto b, auto c, auto) {
              volatile float x = flushed(f32(a), ftz), y = flushed(f32(b), ftz), z = flushed(f32(c), ftz);
              float r = rounding_as<float>(rounding.mode, [&] { return function(x, y, z); });
              r = flushed(r, ftz);
              if (sat) r = r > 0 ? std::fmin(r, 1.0f) : 0.0f;
              return bits32(r);
            },
            Equality::f32, 24);
      }
    }
  }
}

TEST(Float32, EveryRounding) {
  check_f32(
      "add", 2, [](volatile float& a, volatile float& b, volatile float&) { return a + b; }, true);
  check_f32(
      "sub", 2, [](volatile float& a, volatile float& b, volatile float&) { return a - b; }, true);
  check_f32(
      "mul", 2, [](volatile float& a, volatile float& b, volatile float&) { return a * b; }, true);
  check_f32(
      "fma", 3, [](volatile float& a, volatile float& b, volatile float& c) { return std::fma(a, b, c); }, true);
  check_f32(
      "div", 2, [](volatile float& a, volatile float& b, volatile float&) { return a / b; }, false);
  check_f32(
      "rcp", 1, [](volatile float& a, volatile float&, volatile float&) { return 1.0f / a; }, false);
  check_f32(
      "sqrt", 1, [](volatile float& a, volatile float&, volatile float&) { return std::sqrt(a); }, false);
}

TEST(Float32, DirectionsByHand) {  // 1 + 2^-30 and its like, where each direction has its own answer
  const auto expect = [](const char* text, float a, float b, float wanted) {
    check_op(
        text, 32, {32, 32},
        [&](auto x, auto y, auto, auto) {
          return x == bits32(a) && y == bits32(b) ? bits32(wanted) : ~std::uint64_t{0};
        },
        Equality::exact, 0);
    TestWarp test;
    for (const Isa isa : isas_of_host()) {
      test.set(a_slot, 0, bits32(a), false);
      test.set(b_slot, 0, bits32(b), false);
      ir::Inst inst;
      inst.d = d_slot, inst.a = a_slot, inst.b = b_slot;
      arithmetic_handler_for(form_of(text), isa)(test.warp, inst);
      EXPECT_EQ(test.get(d_slot, 0, false), bits32(wanted)) << text;
    }
  };
  expect("add.rn.f32", 1.0f, 0x1p-30f, 1.0f);
  expect("add.rp.f32", 1.0f, 0x1p-30f, 0x1.000002p0f);
  expect("add.rm.f32", 1.0f, -0x1p-30f, 0x1.fffffep-1f);
  expect("add.rz.f32", -1.0f, 0x1p-30f, -0x1.fffffep-1f);
  expect("mul.rz.f32", 0x1.fffffep127f, 2.0f, 0x1.fffffep127f);
  expect("mul.rp.f32", 0x1p-140f, 0x1p-140f, 0x1p-149f);
}

template <class Function>
void check_f64(const std::string& name, int sources, Function function) {
  for (const RoundingName& rounding : roundings) {
    check_op(
        name + "." + rounding.name + ".f64", 64, std::vector<int>(sources, 64),
        [&](auto a, auto b, auto c, auto) {
          volatile double x = f64(a), y = f64(b), z = f64(c);
          return as<std::uint64_t>(rounding_as<double>(rounding.mode, [&] { return function(x, y, z); }));
        },
        Equality::f64, 24);
  }
}

TEST(Float64, EveryRounding) {
  check_f64("add", 2, [](volatile double& a, volatile double& b, volatile double&) { return a + b; });
  check_f64("mul", 2, [](volatile double& a, volatile double& b, volatile double&) { return a * b; });
  check_f64("fma", 3, [](volatile double& a, volatile double& b, volatile double& c) { return std::fma(a, b, c); });
  check_f64("div", 2, [](volatile double& a, volatile double& b, volatile double&) { return a / b; });
  check_f64("sqrt", 1, [](volatile double& a, volatile double&, volatile double&) { return std::sqrt(a); });
}

TEST(Float32, MinimumAndMaximum) {
  for (const bool ftz : {false, true}) {
    for (const bool max : {false, true}) {
      for (const bool nan : {false, true}) {
        const std::string text = std::string(max ? "max" : "min") + (ftz ? ".ftz" : "") + (nan ? ".NaN" : "") + ".f32";
        check_op(text, 32, {32, 32}, [&](auto a, auto b, auto, auto) -> std::uint64_t {
          const float x = flushed(f32(a), ftz), y = flushed(f32(b), ftz);
          if (std::isnan(x) && std::isnan(y)) return 0x7fffffffu;
          if (std::isnan(x) || std::isnan(y)) return nan ? 0x7fffffffu : bits32(std::isnan(x) ? y : x);
          const bool less = x < y || (x == y && std::signbit(x) && !std::signbit(y));
          return bits32(less == max ? y : x);
        });
      }
    }
  }
}

struct HalfType {
  const char* name;
  const ReferenceFormat& format;
};
const HalfType half_types[] = {{"f16", reference_f16}, {"bf16", reference_bf16}};

std::uint64_t half_fma(std::uint64_t a, std::uint64_t b, std::uint64_t c, const ReferenceFormat& f) {
  const Quad product = decode(a, f) * decode(b, f);
  const Quad addend = decode(c, f);
  Quad sum = product + addend;
  // bf16 may be so far apart that even 113 bits lose the smaller part: what is left of it must still break a tie.
  const Quad part = sum - product;
  const Quad lost = (product - (sum - part)) + (addend - part);
  if (lost > 0 || lost < 0) sum += (lost > 0 ? 1 : -1) * (sum < 0 ? -sum : sum) * power_of_two(-100);
  // A zero sum is negative only when both parts are.
  const bool product_negative = sign_of(a, f) != sign_of(b, f);
  const bool negative = sum < 0 || (sum == 0 && product_negative && sign_of(c, f));
  return encode(sum, negative, f, Toward::nearest_even);
}

TEST(Halves, ArithmeticRoundsOnce) {
  for (const HalfType& type : half_types) {
    const ReferenceFormat& f = type.format;
    const std::uint64_t one = f.precision == 11 ? 0x3c00 : 0x3f80;
    const std::string name = type.name;
    const auto negated = [](std::uint64_t x) { return x ^ 0x8000u; };
    const auto fma = [&](auto a, auto b, auto c, auto) { return half_fma(a, b, c, f); };
    const auto add = [&](auto a, auto b, auto, auto) { return half_fma(a, one, b, f); };
    const auto sub = [&](auto a, auto b, auto, auto) { return half_fma(a, one, negated(b), f); };
    const auto mul = [&](auto a, auto b, auto, auto) { return half_fma(a, b, 0x8000u, f); };
    const auto pairwise = [](auto one_half) {
      return [=](std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t m) {
        return one_half(a & 0xffffu, b & 0xffffu, c & 0xffffu, m) | one_half(a >> 16, b >> 16, c >> 16, m) << 16;
      };
    };
    check_op("add." + name, 16, {16, 16}, add, Equality::f16, 60);
    check_op("sub." + name, 16, {16, 16}, sub, Equality::f16, 60);
    check_op("mul." + name, 16, {16, 16}, mul, Equality::f16, 60);
    check_op("fma.rn." + name, 16, {16, 16, 16}, fma, Equality::f16, 200);
    if (f.precision == 11) {
      check_op("add.f16x2", 32, {32, 32}, pairwise(add), Equality::f16x2, 30);
      check_op("fma.rn.f16x2", 32, {32, 32, 32}, pairwise(fma), Equality::f16x2, 60);
    } else {
      const auto to_one_nan = [](std::uint64_t h) { return (h & 0x7fffu) > 0x7f80u ? std::uint64_t{0x7fff} : h; };
      check_op("mul.bf16x2", 32, {32, 32},
               pairwise([&](auto a, auto b, auto c, auto m) { return to_one_nan(mul(a, b, c, m)); }), Equality::exact,
               30);
    }
  }
}

double max_error(const char* text, float from, float to, double (*truth)(double), bool relative) {
  double worst = 0;
  TestWarp test;
  for (const Isa isa : isas_of_host()) {
    const ir::Handler run = arithmetic_handler_for(form_of(text), isa);
    ir::Inst inst;
    inst.d = d_slot, inst.a = a_slot;
    const int steps = 2000;
    for (int step = 0; step < steps; ++step) {
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        const float x = from + (to - from) * static_cast<float>(step * 32 + lane) / static_cast<float>(steps * 32);
        test.set(a_slot, lane, bits32(x), false);
      }
      run(test.warp, inst);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        const double wanted = truth(f32(test.get(a_slot, lane, false)));
        const double error = std::fabs(f32(test.get(d_slot, lane, false)) - wanted);
        worst = std::fmax(worst, relative ? error / std::fabs(wanted) : error);
      }
    }
  }
  return worst;
}

TEST(Approximations, StayWithinTheManualsBounds) {
  EXPECT_LT(max_error("ex2.approx.ftz.f32", -125, 127, std::exp2, true), std::exp2(-22.5));
  EXPECT_LT(max_error("ex2.approx.f32", -1, 1, std::exp2, true), std::exp2(-22.5));
  EXPECT_LT(max_error("lg2.approx.ftz.f32", 0.5f, 2.0f, std::log2, false), std::exp2(-22.0));
  EXPECT_LT(max_error("lg2.approx.f32", 2.0f, 1e30f, std::log2, true), std::exp2(-22.0));
  EXPECT_LT(max_error("lg2.approx.f32", 1e-30f, 0.5f, std::log2, true), std::exp2(-22.0));
  EXPECT_LT(max_error("sin.approx.f32", -3.14159f, 3.14159f, std::sin, false), std::exp2(-20.5));
  EXPECT_LT(max_error("cos.approx.ftz.f32", -3.14159f, 3.14159f, std::cos, false), std::exp2(-20.5));
  EXPECT_LT(max_error("sin.approx.f32", -1000, 1000, std::sin, false), std::exp2(-20.5));
  EXPECT_LT(max_error("tanh.approx.f32", 1e-3f, 12.0f, std::tanh, true), std::exp2(-11.0));
  EXPECT_LT(max_error(
                "rsqrt.approx.ftz.f32", 1e-3f, 1e6f, [](double x) { return 1 / std::sqrt(x); }, true),
            std::exp2(-22.9));
  EXPECT_LT(max_error(
                "rcp.approx.ftz.f32", 1e-3f, 1e6f, [](double x) { return 1 / x; }, true),
            std::exp2(-23.0));
}

TEST(Approximations, SpecialValues) {
  constexpr std::uint32_t inf = 0x7f800000u, minus = 0x80000000u, nan = 0x7fffffffu, one = 0x3f800000u;
  const struct {
    const char* text;
    std::uint64_t a, wanted;
  } cases[] = {
      {"ex2.approx.ftz.f32", inf | minus, 0},
      {"ex2.approx.ftz.f32", inf, inf},
      {"ex2.approx.ftz.f32", 0, one},
      {"ex2.approx.ftz.f32", minus, one},
      {"ex2.approx.ftz.f32", 0x00000001, one},
      {"ex2.approx.ftz.f32", 0x7fc00001, nan},
      {"ex2.approx.ftz.f32", bits32(-126.5f), 0},
      {"ex2.approx.f32", bits32(-149.0f), 1},
      {"ex2.approx.f32", bits32(10.0f), bits32(1024.0f)},
      {"lg2.approx.ftz.f32", 0, inf | minus},
      {"lg2.approx.ftz.f32", minus | 1, inf | minus},
      {"lg2.approx.f32", 1, bits32(-149.0f)},
      {"lg2.approx.f32", inf, inf},
      {"lg2.approx.f32", one | minus, nan},
      {"lg2.approx.f32", one, 0},
      {"lg2.approx.f32", nan, nan},
      {"rcp.approx.ftz.f32", 0, inf},
      {"rcp.approx.ftz.f32", minus, inf | minus},
      {"rcp.approx.ftz.f32", 1, inf},
      {"rcp.approx.ftz.f32", inf | minus, minus},
      {"rcp.approx.ftz.f32", 0x7f7fffff, 0},
      {"rsqrt.approx.f32", one | minus, nan},
      {"rsqrt.approx.f32", minus, inf | minus},
      {"rsqrt.approx.f32", inf, 0},
      {"sin.approx.f32", minus, minus},
      {"sin.approx.f32", inf, nan},
      {"cos.approx.f32", minus, one},
      {"tanh.approx.f32", inf, one},
      {"tanh.approx.f32", inf | minus, one | minus},
      {"tanh.approx.f32", minus, minus},
  };
  for (const auto& row : cases) {
    for (const Isa isa : isas_of_host()) {
      TestWarp test;
      test.set(a_slot, 5, row.a, false);
      ir::Inst inst;
      inst.d = d_slot, inst.a = a_slot;
      arithmetic_handler_for(form_of(row.text), isa)(test.warp, inst);
      EXPECT_EQ(test.get(d_slot, 5, false), row.wanted) << row.text << std::hex << " " << row.a << name_of(isa);
    }
  }
}

TEST(Approximations, VariantsAgreeToTheBit) {
  const std::vector<Isa> isas = isas_of_host();
  for (const char* text : {"ex2.approx.ftz.f32", "ex2.approx.f32", "lg2.approx.ftz.f32", "lg2.approx.f32",
                           "sin.approx.f32", "cos.approx.ftz.f32", "tanh.approx.f32", "rsqrt.approx.f32",
                           "ex2.approx.f16", "tanh.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.bf16"}) {
    std::vector<std::uint64_t> first;
    for (const Isa isa : isas) {
      TestWarp test;
      Values values(form_of(text).source_bits);
      const ir::Handler run = arithmetic_handler_for(form_of(text), isa);
      ir::Inst inst;
      inst.d = d_slot, inst.a = a_slot;
      std::vector<std::uint64_t> results;
      for (int round = 0; round < 1000; ++round) {
        for (int lane = 0; lane < lanes_per_warp; ++lane) test.set(a_slot, lane, values.draw(), false);
        run(test.warp, inst);
        for (int lane = 0; lane < lanes_per_warp; ++lane) results.push_back(test.get(d_slot, lane, false));
      }
      if (isa == isas.front()) first = results;
      EXPECT_EQ(results, first) << text << " " << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
