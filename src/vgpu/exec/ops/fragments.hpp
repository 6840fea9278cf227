// Matrix fragments of mma.sync (PTX ISA 9.7.14.5, "Matrix Fragments for mma.m16n8k..."): which element of A, B, C and D
// lies in which register of which lane. With lane = 4 g + t and P elements to a register:
//   A  register r, element j: row g + 8 (r mod 2), column 4 P (r div 2) + P t + j   (eight rows: r counts columns only)
//   B  register r, element j: row 4 P r + P t + j, column g
//   C  register r: row g + 8 (r div 2), column 2 t + r mod 2; f16 holds both columns in one register
#pragma once

#include "vgpu/exec/ops/floats.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

template <int M, int N, int K>
struct Shape {
  static constexpr int m = M, n = N, k = K;
};

// An input type: what a register holds side by side, and an element as a number.
template <class T>
struct InputOf {
  typedef T __attribute__((may_alias)) Element;  // NOLINT(modernize-use-using): the attribute
  static constexpr int packed = sizeof(T) == 8 ? 1 : 4 / sizeof(T);
};
struct HalfF16 : InputOf<std::uint16_t> {
  static float number(std::uint16_t bits) { return to_float(F16{bits}); }
};
struct HalfBF16 : InputOf<std::uint16_t> {
  static float number(std::uint16_t bits) { return to_float(BF16{bits}); }
};
struct TF32 : InputOf<std::uint32_t> {  // the low 13 bits of the f32 do not take part
  static float number(std::uint32_t bits) { return float_of(bits & 0xffffe000u); }
};
struct E5M2 : InputOf<std::uint8_t> {
  static float number(std::uint8_t bits) { return to_float(F16{static_cast<std::uint16_t>(bits << 8)}); }
};
struct E4M3 : InputOf<std::uint8_t> {
  static float number(std::uint8_t bits) {
    const std::uint32_t magnitude = bits & 0x7fu;
    // Read as an f16 with the exponent one bit too wide, the value is 2^8 too small; NaN has a pattern of its own.
    const float value = to_float(F16{static_cast<std::uint16_t>(magnitude << 7)}) * 256.0f;
    const std::uint32_t result = magnitude == 0x7fu ? nan_f32 : bits_of(value);
    return float_of(result | (bits & 0x80u) << 24);
  }
};
struct S8 : InputOf<std::uint8_t> {
  static std::int32_t number(std::uint8_t bits) { return static_cast<std::int8_t>(bits); }
};
struct U8 : InputOf<std::uint8_t> {
  static std::int32_t number(std::uint8_t bits) { return bits; }
};
struct F64 : InputOf<double> {
  static double number(double value) { return value; }
};

template <class Shape, class In>
inline constexpr int registers_a = Shape::m* Shape::k / (lanes_per_warp * In::packed);
template <class Shape, class In>
inline constexpr int registers_b = Shape::n* Shape::k / (lanes_per_warp * In::packed);

// The 4 P elements that four neighbouring lanes hold are neighbours in a row of A, and in a column of B; so a register
// is eight runs of 4 P elements as they lie in memory.
template <class In, class Number>
VGPU_INLINE void read_runs(const Warp& warp, std::uint32_t slot, Number (&numbers)[lanes_per_warp * In::packed]) {
  const auto* elements = reinterpret_cast<const typename In::Element*>(warp.slot(slot));
  for (int i = 0; i < lanes_per_warp * In::packed; ++i) numbers[i] = In::number(elements[i]);
}

template <class Shape, class In, class Number>
VGPU_INLINE void read_a(const Warp& warp, const std::uint32_t* list, Number (&a)[Shape::m][Shape::k]) {
  constexpr int row_blocks = Shape::m / 8, run = 4 * In::packed;
  for (int r = 0; r < registers_a<Shape, In>; ++r) {
    alignas(64) Number numbers[8 * run];
    read_runs<In>(warp, list[r], numbers);
    for (int g = 0; g < 8; ++g) {
      Number* row = &a[g + 8 * (r % row_blocks)][run * (r / row_blocks)];
      for (int i = 0; i < run; ++i) row[i] = numbers[run * g + i];
    }
  }
}

template <class Shape, class In, class Number>
VGPU_INLINE void read_b(const Warp& warp, const std::uint32_t* list, Number (&b)[Shape::k][Shape::n]) {
  constexpr int run = 4 * In::packed;
  for (int r = 0; r < registers_b<Shape, In>; ++r) {
    alignas(64) Number numbers[8 * run];
    read_runs<In>(warp, list[r], numbers);
    for (int i = 0; i < run; ++i) {
      for (int g = 0; g < 8; ++g) b[run * r + i][g] = numbers[run * g + i];
    }
  }
}

// C and D with one number to a register: lane l of registers 2 i and 2 i + 1 holds elements 2 l and 2 l + 1 of eight
// rows.
template <class Value>
struct SumOf {
  using Number = Value;
  template <class Shape>
  static constexpr int registers = Shape::m* Shape::n / lanes_per_warp;

  template <class Shape>
  [[gnu::noinline]] static void read(const Warp& warp, const std::uint32_t* list, Number (&c)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; r += 2) {
      const auto* even = cells<Number>(warp, list[r]);
      const auto* odd = cells<Number>(warp, list[r + 1]);
      Number* rows = &c[4 * r][0];
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        rows[2 * lane] = from_cell<Number>(even[lane]);
        rows[2 * lane + 1] = from_cell<Number>(odd[lane]);
      }
    }
  }
  template <class Shape>
  [[gnu::noinline]] static void write(Warp& warp, const std::uint32_t* list, const Number (&d)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      if (list[r] == ir::no_slot) continue;  // `_`
      const Number* rows = &d[8 * (r / 2)][r % 2];
      write_lanes<Number>(warp, list[r], [=](int lane) {
        const Number value = rows[2 * lane];
        if constexpr (std::is_floating_point_v<Number>) return canonical(value);
        return value;
      });
    }
  }
};

struct SumF32 : SumOf<float> {
  static float add_product(float a, float b, float sum) { return __builtin_fmaf(a, b, sum); }
};
struct SumF64 : SumOf<double> {
  static double add_product(double a, double b, double sum) { return __builtin_fma(a, b, sum); }
};
struct SumS32 : SumOf<std::int32_t> {  // wraps around
  static std::int32_t add_product(std::int32_t a, std::int32_t b, std::int32_t sum) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a * b) + static_cast<std::uint32_t>(sum));
  }
};
struct SumS32Clamped {  // .satfinite: the exact sum, clamped once
  using Number = std::int64_t;
  template <class Shape>
  static constexpr int registers = SumS32::registers<Shape>;

  static Number add_product(Number a, Number b, Number sum) { return a * b + sum; }
  template <class Shape>
  [[gnu::noinline]] static void read(const Warp& warp, const std::uint32_t* list, Number (&c)[Shape::m][Shape::n]) {
    std::int32_t narrow[Shape::m][Shape::n];
    SumS32::read<Shape>(warp, list, narrow);
    for (int i = 0; i < Shape::m * Shape::n; ++i) c[i / Shape::n][i % Shape::n] = narrow[i / Shape::n][i % Shape::n];
  }
  template <class Shape>
  [[gnu::noinline]] static void write(Warp& warp, const std::uint32_t* list, const Number (&d)[Shape::m][Shape::n]) {
    std::int32_t narrow[Shape::m][Shape::n];
    for (int i = 0; i < Shape::m * Shape::n; ++i) {
      const Number exact = d[i / Shape::n][i % Shape::n];
      narrow[i / Shape::n][i % Shape::n] = static_cast<std::int32_t>(exact < INT32_MIN   ? INT32_MIN
                                                                     : exact > INT32_MAX ? INT32_MAX
                                                                                         : exact);
    }
    SumS32::write<Shape>(warp, list, narrow);
  }
};
struct SumF16 {
  using Number = float;
  template <class Shape>
  static constexpr int registers = Shape::m* Shape::n / (2 * lanes_per_warp);

  static float add_product(float a, float b, float sum) { return __builtin_fmaf(a, b, sum); }
  template <class Shape>
  [[gnu::noinline]] static void read(const Warp& warp, const std::uint32_t* list, float (&c)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      const std::uint32_t* cell = warp.slot(list[r]);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (int j = 0; j < 2; ++j) {
          c[lane / 4 + 8 * r][2 * (lane % 4) + j] = HalfF16::number(static_cast<std::uint16_t>(cell[lane] >> (16 * j)));
        }
      }
    }
  }
  template <class Shape>
  [[gnu::noinline]] static void write(Warp& warp, const std::uint32_t* list, const float (&d)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      if (list[r] == ir::no_slot) continue;  // `_`
      write_lanes<std::uint32_t>(warp, list[r], [&](int lane) {
        const float* pair = &d[lane / 4 + 8 * r][2 * (lane % 4)];
        return round_to<F16>(pair[0]).bits | static_cast<std::uint32_t>(round_to<F16>(pair[1]).bits) << 16;
      });
    }
  }
};

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
