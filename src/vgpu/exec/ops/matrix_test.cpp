// mma against the definition: each element of D from its row of A and column of B, found in the fragments as the
// manual's figures place them; and the sums of the documented model, k by k.
#include <cmath>

#include "vgpu/exec/ops/harness_test.hpp"
#include "vgpu/exec/ops/reference_test.hpp"

namespace flashmoe::vgpu::exec::ops {
namespace {

enum class Kind { f16, bf16, tf32, e4m3, e5m2, s8, u8, f64 };

struct Case {
  const char* text;
  int m, n, k;
  Kind a, b;
  bool half_sums = false;
};
constexpr Case cases[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, Kind::f16, Kind::f16},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, Kind::bf16, Kind::bf16},
    {"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, Kind::f16, Kind::f16, true},
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, Kind::f16, Kind::f16},
    {"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, Kind::f16, Kind::f16, true},
    {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 8, Kind::bf16, Kind::bf16},
    {"mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, Kind::tf32, Kind::tf32},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, Kind::tf32, Kind::tf32},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 8, 32, Kind::e4m3, Kind::e5m2},
    {"mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 8, 32, Kind::e5m2, Kind::e4m3},
    {"mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", 16, 8, 32, Kind::e4m3, Kind::e4m3, true},
    {"mma.sync.aligned.m16n8k16.row.col.s32.s8.u8.s32", 16, 8, 16, Kind::s8, Kind::u8},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", 16, 8, 32, Kind::u8, Kind::s8},
    {"mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", 16, 8, 32, Kind::s8, Kind::s8},
    {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, Kind::f64, Kind::f64},
};

int bits_of(Kind kind) {
  switch (kind) {
    case Kind::f16:
    case Kind::bf16:
      return 16;
    case Kind::tf32:
      return 32;
    case Kind::f64:
      return 64;
    default:
      return 8;
  }
}

// Element (row, column) of an operand of `rows` rows as figures place it: lane, register, shift.
struct Place {
  int lane, index, shift;
};
Place place_in_a(const Case& c, int row, int column) {
  const int per = bits_of(c.a) == 64 ? 1 : 32 / bits_of(c.a);  // elements of a register
  const int block = column / (4 * per), within = column % (4 * per);
  return {4 * (row % 8) + within / per, (c.m / 8) * block + row / 8, within % per * bits_of(c.a)};
}
Place place_in_b(const Case& c, int row, int column) {
  const int per = bits_of(c.b) == 64 ? 1 : 32 / bits_of(c.b);
  const int within = row % (4 * per);
  return {4 * column + within / per, row / (4 * per), within % per * bits_of(c.b)};
}
Place place_in_c(const Case& c, int row, int column) {
  if (c.half_sums) return {4 * (row % 8) + column / 2, row / 8, 16 * (column % 2)};
  return {4 * (row % 8) + column / 2, 2 * (row / 8) + column % 2, 0};
}

Quad value_of(std::uint64_t bits, Kind kind) {
  switch (kind) {
    case Kind::f16:
      return decode(bits, reference_f16);
    case Kind::bf16:
      return decode(bits, reference_bf16);
    case Kind::tf32:
      return decode(bits >> 13, reference_tf32);
    case Kind::e4m3:
      return decode(bits, reference_e4m3);
    case Kind::e5m2:
      return decode(bits, reference_e5m2);
    case Kind::s8:
      return static_cast<std::int8_t>(bits);
    case Kind::u8:
      return static_cast<std::uint8_t>(bits);
    case Kind::f64:
      return as<double>(bits);
  }
  return 0;
}

class Matrix : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::uint32_t first_d = 0, first_a = 8, first_b = 16, first_c = 24;  // each up to four, two apart

  std::uint64_t read(TestWarp& test, std::uint32_t first, Place place, int bits) {
    const std::uint64_t whole = test.get(first + 2 * place.index, place.lane, bits == 64) >> place.shift;
    return bits == 64 ? whole : whole & ((1ull << bits) - 1);
  }

  std::uint64_t expected(TestWarp& test, int row, int column) {
    const Case& c = GetParam();
    const bool is_double = c.a == Kind::f64, is_integer = c.a == Kind::s8 || c.a == Kind::u8;
    const std::uint64_t start = read(test, first_c, place_in_c(c, row, column), c.half_sums ? 16 : is_double ? 64 : 32);
    const bool clamps = std::string_view(c.text).find("satfinite") != std::string_view::npos;
    float single =
        c.half_sums ? static_cast<float>(decode(start, reference_f16)) : as<float>(static_cast<std::uint32_t>(start));
    double wide = as<double>(start);
    auto whole = static_cast<std::int64_t>(static_cast<std::int32_t>(start));
    for (int k = 0; k < c.k; ++k) {
      const Quad a = value_of(read(test, first_a, place_in_a(c, row, k), bits_of(c.a)), c.a);
      const Quad b = value_of(read(test, first_b, place_in_b(c, k, column), bits_of(c.b)), c.b);
      single = std::fma(static_cast<float>(a), static_cast<float>(b), single);
      wide = std::fma(static_cast<double>(a), static_cast<double>(b), wide);
      if (is_integer) whole += static_cast<std::int64_t>(a * b);
      if (clamps) whole = whole > INT32_MAX ? INT32_MAX : whole < INT32_MIN ? INT32_MIN : whole;
    }
    if (is_integer) return static_cast<std::uint32_t>(whole);
    if (is_double) return std::isnan(wide) ? 0x7ff8000000000000ull : as<std::uint64_t>(wide);
    if (std::isnan(single)) return c.half_sums ? 0x7fffu : 0x7fffffffu;
    return c.half_sums ? encode(single, std::signbit(single), reference_f16, Toward::nearest_even)
                       : as<std::uint32_t>(single);
  }
};

TEST_P(Matrix, EqualsTheDefinition) {
  const Case& c = GetParam();
  const int sum_bits = c.half_sums ? 16 : c.a == Kind::f64 ? 64 : 32;
  const int registers_a = c.m * c.k * bits_of(c.a) / (32 * (c.a == Kind::f64 ? 64 : 32));
  const int registers_b = c.n * c.k * bits_of(c.b) / (32 * (c.b == Kind::f64 ? 64 : 32));
  const int registers_c = c.m * c.n * sum_bits / (32 * (c.a == Kind::f64 ? 64 : 32));
  for (const Isa isa : isas_of_host()) {
    const ir::Handler run = arithmetic_handler_for(form_of(c.text), isa);
    ASSERT_NE(run, nullptr) << c.text;
    TestWarp test;
    const auto list = [&](std::uint32_t first, int count) {
      for (int i = 0; i < count; ++i) test.kernel.lists.push_back(first + 2 * static_cast<std::uint32_t>(i));
    };
    list(first_d, registers_c), list(first_a, registers_a), list(first_b, registers_b), list(first_c, registers_c);
    std::mt19937_64 random(7);
    for (int round = 0; round < 6; ++round) {
      for (std::uint32_t slot = 0; slot < 32; ++slot) {
        for (int lane = 0; lane < lanes_per_warp; ++lane) {
          std::uint64_t bits = random();
          // All patterns at first (NaN, infinities), then numbers near one, as they are in practice.
          if (round >= 2 && slot < first_c && bits_of(c.a) == 16) {
            bits = (bits & 0x83ff83ffu) | (c.a == Kind::f16 ? 0x38003800u : 0x3c003c00u);
          }
          if (round >= 2 && c.a == Kind::tf32 && slot < first_c) bits = (bits & 0x807fffffu) | 0x3f000000u;
          if (round >= 2 && bits_of(c.a) == 8 && slot < first_c) bits &= 0xbfbfbfbfu;
          if (round >= 2 && slot >= first_c && sum_bits == 32) bits = (bits & 0x807fffffu) | 0x40000000u;
          test.set(slot, lane, bits, false);
        }
      }
      ir::Inst inst;
      inst.list = 0;
      run(test.warp, inst);
      for (int row = 0; row < c.m; ++row) {
        for (int column = 0; column < c.n; ++column) {
          ASSERT_EQ(read(test, first_d, place_in_c(c, row, column), sum_bits), expected(test, row, column))
              << c.text << " " << name_of(isa) << " round " << round << " D[" << row << "][" << column << "]";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, Matrix, testing::ValuesIn(cases));

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops
