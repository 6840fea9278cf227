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

// An input type: how wide a register is, how many elements it packs, and element j as a number.
struct HalfF16 {
  using Register = std::uint32_t;
  static constexpr int packed = 2;
  static float element(Register bits, int j) { return to_float(F16{static_cast<std::uint16_t>(bits >> (16 * j))}); }
};
struct HalfBF16 {
  using Register = std::uint32_t;
  static constexpr int packed = 2;
  static float element(Register bits, int j) { return to_float(BF16{static_cast<std::uint16_t>(bits >> (16 * j))}); }
};
struct TF32 {  // the low 13 bits of the f32 do not take part
  using Register = std::uint32_t;
  static constexpr int packed = 1;
  static float element(Register bits, int) { return float_of(bits & 0xffffe000u); }
};
struct E5M2 {
  using Register = std::uint32_t;
  static constexpr int packed = 4;
  static float element(Register bits, int j) {
    return to_float(F16{static_cast<std::uint16_t>((bits >> (8 * j) & 0xffu) << 8)});
  }
};
struct E4M3 {
  using Register = std::uint32_t;
  static constexpr int packed = 4;
  static float element(Register bits, int j) {
    const std::uint32_t byte = bits >> (8 * j) & 0xffu, magnitude = byte & 0x7fu;
    // Read as an f16 with the exponent three bits too wide, the value is 2^8 too small; NaN has a pattern of its own.
    const float value = to_float(F16{static_cast<std::uint16_t>(magnitude << 7)}) * 256.0f;
    const std::uint32_t result = magnitude == 0x7fu ? nan_f32 : bits_of(value);
    return float_of(result | (byte & 0x80u) << 24);
  }
};
struct S8 {
  using Register = std::uint32_t;
  static constexpr int packed = 4;
  static std::int32_t element(Register bits, int j) { return static_cast<std::int8_t>(bits >> (8 * j)); }
};
struct U8 {
  using Register = std::uint32_t;
  static constexpr int packed = 4;
  static std::int32_t element(Register bits, int j) { return static_cast<std::uint8_t>(bits >> (8 * j)); }
};
struct F64 {
  using Register = double;
  static constexpr int packed = 1;
  static double element(Register value, int) { return value; }
};

template <class Shape, class In>
inline constexpr int registers_a = Shape::m* Shape::k / (lanes_per_warp * In::packed);
template <class Shape, class In>
inline constexpr int registers_b = Shape::n* Shape::k / (lanes_per_warp * In::packed);

template <class Shape, class In, class Number>
VGPU_INLINE void read_a(const Warp& warp, const std::uint32_t* list, Number (&a)[Shape::k][Shape::m]) {
  constexpr int row_blocks = Shape::m / 8;
  for (int r = 0; r < registers_a<Shape, In>; ++r) {
    const auto* cell = cells<typename In::Register>(warp, list[r]);
    for (int j = 0; j < In::packed; ++j) {
      alignas(64) Number values[lanes_per_warp];
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        values[lane] = In::element(from_cell<typename In::Register>(cell[lane]), j);
      }
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        const int row = lane / 4 + 8 * (r % row_blocks);
        const int column = 4 * In::packed * (r / row_blocks) + In::packed * (lane % 4) + j;
        a[column][row] = values[lane];
      }
    }
  }
}

template <class Shape, class In, class Number>
VGPU_INLINE void read_b(const Warp& warp, const std::uint32_t* list, Number (&b)[Shape::k][Shape::n]) {
  for (int r = 0; r < registers_b<Shape, In>; ++r) {
    const auto* cell = cells<typename In::Register>(warp, list[r]);
    for (int j = 0; j < In::packed; ++j) {
      alignas(64) Number values[lanes_per_warp];
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        values[lane] = In::element(from_cell<typename In::Register>(cell[lane]), j);
      }
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        b[4 * In::packed * r + In::packed * (lane % 4) + j][lane / 4] = values[lane];
      }
    }
  }
}

// C and D with one number to a register.
template <class Value>
struct SumOf {
  using Number = Value;
  template <class Shape>
  static constexpr int registers = Shape::m* Shape::n / lanes_per_warp;

  template <class Shape>
  static void read(const Warp& warp, const std::uint32_t* list, Number (&c)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      const auto* cell = cells<Number>(warp, list[r]);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        c[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2] = from_cell<Number>(cell[lane]);
      }
    }
  }
  template <class Shape>
  static void write(Warp& warp, const std::uint32_t* list, const Number (&d)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      write_lanes<Number>(warp, list[r], [&](int lane) {
        const Number value = d[lane / 4 + 8 * (r / 2)][2 * (lane % 4) + r % 2];
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
struct SumS32Clamped : SumOf<std::int32_t> {  // .satfinite
  static std::int32_t add_product(std::int32_t a, std::int32_t b, std::int32_t sum) {
    const std::int64_t exact = std::int64_t{a} * b + sum;
    return static_cast<std::int32_t>(exact < INT32_MIN ? INT32_MIN : exact > INT32_MAX ? INT32_MAX : exact);
  }
};
struct SumF16 {
  using Number = float;
  template <class Shape>
  static constexpr int registers = Shape::m* Shape::n / (2 * lanes_per_warp);

  static float add_product(float a, float b, float sum) { return __builtin_fmaf(a, b, sum); }
  template <class Shape>
  static void read(const Warp& warp, const std::uint32_t* list, float (&c)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      const std::uint32_t* cell = warp.slot(list[r]);
      for (int lane = 0; lane < lanes_per_warp; ++lane) {
        for (int j = 0; j < 2; ++j) c[lane / 4 + 8 * r][2 * (lane % 4) + j] = HalfF16::element(cell[lane], j);
      }
    }
  }
  template <class Shape>
  static void write(Warp& warp, const std::uint32_t* list, const float (&d)[Shape::m][Shape::n]) {
    for (int r = 0; r < registers<Shape>; ++r) {
      write_lanes<std::uint32_t>(warp, list[r], [&](int lane) {
        const float* pair = &d[lane / 4 + 8 * r][2 * (lane % 4)];
        return round_to<F16>(pair[0]).bits | static_cast<std::uint32_t>(round_to<F16>(pair[1]).bits) << 16;
      });
    }
  }
};

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
