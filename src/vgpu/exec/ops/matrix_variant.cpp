// mma.sync (PTX ISA 9.7.14.5). One model for all floating-point inputs, documented because hardware's is not: each
// element of D starts from C and adds the products A[m][k] B[k][n] one by one, k = 0 first, every step one fused
// multiply-add rounded to nearest in the accumulator's type. Products are exact, so with K products and s = |C| +
// sum |A B| the error is at most K 2^-24 s (f32) to first order; a device aligns a group of products to the largest and
// cuts the rest, which errs by as much. f16 accumulators are summed in f32 and rounded once. All variants of the host's
// instruction set do the same steps and give the same bits.
#include "vgpu/exec/ops/fragments.hpp"
#include "vgpu/exec/ops/matrix_avx2.hpp"
#include "vgpu/exec/ops/matrix_avx512.hpp"
#include "vgpu/exec/ops/variants.hpp"

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

// The steps of a product, each one function for all products that share it: as one function for each combination of
// shape, inputs and accumulator they are four times the code, and half a minute of the compiler's time a variant.
template <class Shape, class In, class Number>
[[gnu::noinline]] void load_a(const Warp& warp, const std::uint32_t* list, Number (&a)[Shape::m][Shape::k]) {
  read_a<Shape, In>(warp, list, a);
}
template <class Shape, class In, class Number>
[[gnu::noinline]] void load_b(const Warp& warp, const std::uint32_t* list, Number (&b)[Shape::k][Shape::n]) {
  read_b<Shape, In>(warp, list, b);
}
template <class Shape, class Accumulator, class Number = typename Accumulator::Number>
[[gnu::noinline]] void accumulate(const Number (&a)[Shape::m][Shape::k], const Number (&b)[Shape::k][Shape::n],
                                  Number (&d)[Shape::m][Shape::n]) {
  for (int row = 0; row < Shape::m; ++row) {
    Number sum[Shape::n];
    for (int column = 0; column < Shape::n; ++column) sum[column] = d[row][column];
    for (int k = 0; k < Shape::k; ++k) {
      for (int column = 0; column < Shape::n; ++column) {
        sum[column] = Accumulator::add_product(a[row][k], b[k][column], sum[column]);
      }
    }
    for (int column = 0; column < Shape::n; ++column) d[row][column] = sum[column];
  }
}

template <class Shape, class A, class B, class Accumulator>
void multiply(Warp& warp, const Inst& inst) {
  using Number = typename Accumulator::Number;
  alignas(64) Number a[Shape::m][Shape::k];
  alignas(64) Number b[Shape::k][Shape::n];
  alignas(64) Number d[Shape::m][Shape::n];
  const std::uint32_t* list = warp.kernel->lists.data() + inst.list;
  const std::uint32_t* list_a = list + Accumulator::template registers<Shape>;
  const std::uint32_t* list_b = list_a + registers_a<Shape, A>;
  const std::uint32_t* list_c = list_b + registers_b<Shape, B>;
  load_a<Shape, A>(warp, list_a, a);
  load_b<Shape, B>(warp, list_b, b);
  Accumulator::template read<Shape>(warp, list_c, d);
  accumulate<Shape, Accumulator>(a, b, d);
  Accumulator::template write<Shape>(warp, list, d);
}

template <class Shape, class A, class B = A>
Handler floating(const Key& key) {
  if (key.types[0] == Type::f32 && key.types[3] == Type::f32) return multiply<Shape, A, B, SumF32>;
  if (key.types[0] == Type::f16 && key.types[3] == Type::f16) return multiply<Shape, A, B, SumF16>;
  return nullptr;
}

template <class Shape, class A>
Handler floating_8bit(const Key& key) {
  if (key.types[2] == Type::e4m3) return floating<Shape, A, E4M3>(key);
  if (key.types[2] == Type::e5m2) return floating<Shape, A, E5M2>(key);
  return nullptr;
}

template <class Shape>
Handler integral(const Key& key) {
  if (key.types[0] != Type::s32 || key.types[3] != Type::s32) return nullptr;
  const bool a = key.types[1] == Type::s8, b = key.types[2] == Type::s8;
  if (!a && key.types[1] != Type::u8) return nullptr;
  if (!b && key.types[2] != Type::u8) return nullptr;
  if (key.has(Modifier::satfinite)) {
    if (a) return b ? multiply<Shape, S8, S8, SumS32Clamped> : multiply<Shape, S8, U8, SumS32Clamped>;
    return b ? multiply<Shape, U8, S8, SumS32Clamped> : multiply<Shape, U8, U8, SumS32Clamped>;
  }
  if (a) return b ? multiply<Shape, S8, S8, SumS32> : multiply<Shape, S8, U8, SumS32>;
  return b ? multiply<Shape, U8, S8, SumS32> : multiply<Shape, U8, U8, SumS32>;
}

Handler half_times_half(const Key& key) {
  const bool f32 = key.types[0] == Type::f32 && key.types[3] == Type::f32;
  if (key.types[1] != key.types[2]) return nullptr;
  if (key.has(Modifier::m16n8k16)) {
#if defined(VGPU_MATRIX_FAST)
    if (f32) return key.types[1] == Type::f16 ? multiply_16x8x16<F16> : multiply_16x8x16<BF16>;
#endif
    if (key.types[1] == Type::f16) return floating<Shape<16, 8, 16>, HalfF16>(key);
    return f32 ? floating<Shape<16, 8, 16>, HalfBF16>(key) : nullptr;
  }
  if (key.has(Modifier::m16n8k8)) {
    if (key.types[1] == Type::f16) return floating<Shape<16, 8, 8>, HalfF16>(key);
    return f32 ? floating<Shape<16, 8, 8>, HalfBF16>(key) : nullptr;
  }
  return nullptr;
}

Handler double_times_double(const Key& key) {
  if (key.has(Modifier::m8n8k4)) return multiply<Shape<8, 8, 4>, F64, F64, SumF64>;
  if (key.has(Modifier::m16n8k4)) return multiply<Shape<16, 8, 4>, F64, F64, SumF64>;
  if (key.has(Modifier::m16n8k8)) return multiply<Shape<16, 8, 8>, F64, F64, SumF64>;
  if (key.has(Modifier::m16n8k16)) return multiply<Shape<16, 8, 16>, F64, F64, SumF64>;
  return nullptr;
}

}  // namespace

Handler find_matrix(const Key& key) {
  if (key.op != Op::mma || key.type_count != 4) return nullptr;
  if (!key.has(Modifier::row) || !key.has(Modifier::col)) return nullptr;
  switch (key.types[1]) {
    case Type::f16:
    case Type::bf16:
      return half_times_half(key);
    case Type::tf32:
      if (key.types[0] != Type::f32) return nullptr;
      if (key.has(Modifier::m16n8k4)) return floating<Shape<16, 8, 4>, TF32>(key);
      return key.has(Modifier::m16n8k8) ? floating<Shape<16, 8, 8>, TF32>(key) : nullptr;
    case Type::e4m3:
      if (key.has(Modifier::m16n8k32)) return floating_8bit<Shape<16, 8, 32>, E4M3>(key);
      return key.has(Modifier::m16n8k16) ? floating_8bit<Shape<16, 8, 16>, E4M3>(key) : nullptr;
    case Type::e5m2:
      if (key.has(Modifier::m16n8k32)) return floating_8bit<Shape<16, 8, 32>, E5M2>(key);
      return key.has(Modifier::m16n8k16) ? floating_8bit<Shape<16, 8, 16>, E5M2>(key) : nullptr;
    case Type::s8:
    case Type::u8:
      if (key.has(Modifier::m8n8k16)) return integral<Shape<8, 8, 16>>(key);
      if (key.has(Modifier::m16n8k16)) return integral<Shape<16, 8, 16>>(key);
      return key.has(Modifier::m16n8k32) ? integral<Shape<16, 8, 32>>(key) : nullptr;
    case Type::f64:
      return double_times_double(key);
    default:
      return nullptr;
  }
}

}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
