// For the tests beside it: a warp with registers of its own, forms from their text, and values worth trying.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "vgpu/exec/ops/arithmetic.hpp"
#include "vgpu/exec/state.hpp"

namespace flashmoe::vgpu::exec::ops {

// "fma.rn.ftz.f32" taken apart.
inline ir::Form form_of(std::string_view text) {
  constexpr std::string_view roundings[] = {"rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi"};
  ir::Form form;
  std::string word;
  const auto take = [&] {
    if (form.opcode.empty()) {
      form.opcode = word;
    } else {
      form.modifiers.push_back(word);
      if (const ir::Type type = ir::type_of(word); type != ir::Type::none) form.types.push_back(type);
      for (std::size_t i = 0; i < std::size(roundings); ++i) {
        if (word == roundings[i]) form.rounding = static_cast<ir::Rounding>(i + 1);
      }
    }
    word.clear();
  };
  for (const char letter : text) letter == '.' ? take() : word.push_back(letter);
  take();
  const auto register_bits = [](ir::Type type) {
    const int bits = ir::bits_of(type);
    return bits == 1 ? 1 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
  };
  if (!form.types.empty()) {
    form.destination_bits = register_bits(form.types.front());
    form.source_bits = register_bits(form.types.back());
  }
  return form;
}

inline std::vector<Isa> isas_of_host() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    if (host_has(isa)) isas.push_back(isa);
  }
  return isas;
}

// Slots 0, 2, 4, ... are free for use, two apart so that each can be wide.
struct TestWarp {
  alignas(64) std::uint32_t registers[64 * lanes_per_warp] = {};
  std::uint32_t predicates[16] = {};
  ir::Kernel kernel{};
  Launch launch{};
  Grid grid{};
  Cta cta{};
  Warp warp{};

  TestWarp() {
    warp.registers = registers;
    warp.predicates = predicates;
    warp.exec = warp.active = warp.valid = all_lanes;
    warp.kernel = &kernel;
    warp.cta = &cta;
    cta.grid = &grid;
    grid.launch = &launch;
    grid.kernel = &kernel;
  }
  TestWarp(const TestWarp&) = delete;
  TestWarp& operator=(const TestWarp&) = delete;

  void set(std::uint32_t slot, int lane, std::uint64_t bits, bool wide) {
    std::memcpy(place(slot, lane, wide), &bits, wide ? 8 : 4);
  }
  [[nodiscard]] std::uint64_t get(std::uint32_t slot, int lane, bool wide) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, place(slot, lane, wide), wide ? 8 : 4);
    return bits;
  }

 private:
  std::uint8_t* place(std::uint32_t slot, int lane, bool wide) {
    return reinterpret_cast<std::uint8_t*>(warp.slot(slot)) + static_cast<std::size_t>(lane) * (wide ? 8 : 4);
  }
};

inline constexpr std::uint32_t d_slot = 0, e_slot = 2, a_slot = 4, b_slot = 6, c_slot = 8, m_slot = 10;

template <class To, class From>
To as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

// Bits that are worth trying at a width: edges of integers, and of the floats of that width.
inline std::vector<std::uint64_t> special_bits(int width) {
  std::vector<std::uint64_t> bits = {0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256};
  const std::uint64_t ones = width == 64 ? ~0ull : (1ull << width) - 1;
  for (const int bit : {7, 8, 15, 16, 31, 32, 63}) {
    if (bit < width) bits.insert(bits.end(), {1ull << bit, (1ull << bit) - 1, ones - (1ull << bit)});
  }
  bits.insert(bits.end(), {ones, ones - 1, ones - 2, ones - 31});
  const auto halves = {0x0001, 0x03ff, 0x0400, 0x3c00, 0x3bff, 0x4200, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x3800, 0x0200};
  const auto floats = {0x00000001u, 0x007fffffu, 0x00800000u, 0x3f800000u, 0x3f7fffffu, 0x3f000000u, 0x40490fdbu,
                       0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x4f000000u, 0x4b000000u, 0x42fc0000u,
                       0x33800000u, 0x387fc000u, 0x477fe000u, 0x477ff000u, 0x7e800000u, 0x7e800001u, 0x3f801000u};
  const auto doubles = {1.0,
                        0.5,
                        1.5,
                        2.5,
                        4294967296.0,
                        1e308,
                        5e-324,
                        2.2250738585072014e-308,
                        1.0 / 3,
                        std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  if (width == 16) {
    for (const int half : halves) bits.insert(bits.end(), {std::uint64_t(half), std::uint64_t(half | 0x8000)});
  }
  if (width == 32) {
    for (const std::uint32_t f : floats) bits.insert(bits.end(), {std::uint64_t{f}, std::uint64_t{f | 0x80000000u}});
    for (const int half : halves) bits.push_back(static_cast<std::uint64_t>(half) << 16 | 0x3c00u);
  }
  if (width == 64) {
    for (const double f : doubles) bits.insert(bits.end(), {as<std::uint64_t>(f), as<std::uint64_t>(-f)});
  }
  return bits;
}

// Draws specials and random patterns, half each; random floats get exponents near each other half of the time, because
// far ones only ever test that the larger operand wins.
class Values {
 public:
  explicit Values(int width) : width_(width), specials_(special_bits(width)) {}

  std::uint64_t draw() {
    const std::uint64_t random = engine_();
    if (random % 2 == 0) return specials_[engine_() % specials_.size()];
    std::uint64_t bits = engine_();
    if (random % 4 == 1 && width_ == 32) bits = (bits & 0x83ffffffu) | 0x3c000000u;
    if (random % 4 == 1 && width_ == 64) bits = (bits & 0x807fffffffffffffull) | 0x3f80000000000000ull;
    return width_ == 64 ? bits : bits & ((1ull << width_) - 1);
  }

 private:
  int width_;
  std::vector<std::uint64_t> specials_;
  std::mt19937_64 engine_{20240607};
};

struct Operand {
  int width = 32;  // of the values: 8, 16, 32 or 64
};

// Any NaN of a format counts as the one NaN.
enum class Equality { exact, f16, f16x2, f32, f64 };

inline std::uint64_t one_nan(std::uint64_t bits, Equality equality) {
  const auto half = [](std::uint64_t h) { return (h & 0x7fffu) > 0x7c00u ? std::uint64_t{0x7fff} : h; };
  switch (equality) {
    case Equality::f16:
      return half(bits);
    case Equality::f16x2:
      return half(bits & 0xffffu) | half(bits >> 16) << 16;
    case Equality::f32:
      return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
    case Equality::f64:
      return (bits & ~(1ull << 63)) > 0x7ff0000000000000ull ? 0x7ff8000000000000ull : bits;
    case Equality::exact:
      break;
  }
  return bits;
}

// Runs d = op(sources) with each variant, full and partial masks, d apart from the sources and the same register as the
// first one, and compares every lane with expected(a, b, c, m); lanes that do not run keep what they had.
template <class Expected>
void check_op(std::string_view text, int d_width, std::vector<int> widths, Expected expected,
              Equality equality = Equality::exact, int rounds = 60) {
  const ir::Form form = form_of(text);
  for (const Isa isa : isas_of_host()) {
    const ir::Handler run = arithmetic_handler_for(form, isa);
    ASSERT_NE(run, nullptr) << text << " " << name_of(isa);
    TestWarp test;
    Values masks(32);
    std::vector<Values> values;
    for (const int width : widths) values.emplace_back(width);
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t skip = 0; skip < 7 * i; ++skip) (void)values[i].draw();  // operands must not go in step
    }
    const std::uint32_t slots[] = {a_slot, b_slot, c_slot, m_slot};
    const auto is_wide = [](int width) { return width == 64; };
    for (int round = 0; round < rounds; ++round) {
      const bool in_place = round % 3 == 2 && is_wide(d_width) == is_wide(widths[0]);
      std::array<std::array<std::uint64_t, 4>, lanes_per_warp> sources{};
      std::array<std::uint64_t, lanes_per_warp> before{};
      const std::uint32_t d = in_place ? a_slot : d_slot;
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (std::size_t i = 0; i < widths.size(); ++i) {
          sources[lane][i] = values[i].draw();
          test.set(slots[i], lane, sources[lane][i], is_wide(widths[i]));
        }
        if (!in_place) test.set(d, lane, 0xdeadbeefcafef00dull, is_wide(d_width));
        before[lane] = test.get(d, lane, is_wide(d_width));
      }
      test.warp.exec = round % 2 == 0 ? all_lanes : static_cast<std::uint32_t>(masks.draw());
      ir::Inst inst;
      inst.d = d;
      inst.a = a_slot;
      inst.b = b_slot;
      inst.c = c_slot;
      inst.m = m_slot;
      run(test.warp, inst);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        const std::uint64_t got = test.get(d, lane, is_wide(d_width));
        const auto& s = sources[lane];
        const bool runs = (test.warp.exec >> lane & 1u) != 0;
        const std::uint64_t wanted = runs ? one_nan(expected(s[0], s[1], s[2], s[3]), equality) : before[lane];
        ASSERT_EQ(runs ? one_nan(got, equality) : got, wanted)
            << text << " " << name_of(isa) << " lane " << lane << std::hex << " a=" << s[0] << " b=" << s[1]
            << " c=" << s[2] << " m=" << s[3] << " got " << got << " wanted " << wanted << (runs ? "" : " (inactive)");
      }
    }
  }
}

}  // namespace flashmoe::vgpu::exec::ops
