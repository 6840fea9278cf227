// How an op's small function is applied to the lanes of a warp. Included by every translation unit of ops; everything
// here is in an unnamed namespace of the unit's own instruction set, so that no copy compiled for AVX-512 can stand in
// for another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "vgpu/exec/ops/key.hpp"
#include "vgpu/exec/state.hpp"

#if !defined(VGPU_VARIANT)
#define VGPU_VARIANT common  // ops that are compiled once, for every host
#endif

// No lane depends on another: a destination is either the very register of a source or apart from it.
#if defined(__clang__)
#define VGPU_LANES
#else
#define VGPU_LANES _Pragma("GCC ivdep")
#endif
#define VGPU_INLINE inline __attribute__((always_inline))

namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT {
namespace {

using ir::Handler;
using ir::Inst;
using ir::Rounding;
using ir::Type;

// 16-bit values in a register of their own; two of them in a 32-bit one.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

using Wide = std::uint64_t __attribute__((may_alias));  // two slots read as 32 x 64 bits
template <std::size_t Bytes>
struct CellOf {
  using Type = std::uint32_t;
};
template <>
struct CellOf<8> {
  using Type = Wide;
};
template <class T>
using Cell = typename CellOf<sizeof(T)>::Type;
template <class T>
using Bits = std::conditional_t<
    sizeof(T) == 8, std::uint64_t,
    std::conditional_t<sizeof(T) == 4, std::uint32_t, std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;

template <class T>
VGPU_INLINE Cell<T>* cells(const Warp& warp, std::uint32_t slot) {
  return reinterpret_cast<Cell<T>*>(warp.slot(slot));
}
template <class T>
VGPU_INLINE T from_cell(Cell<T> cell) {
  return __builtin_bit_cast(T, static_cast<Bits<T>>(cell));
}
template <class T>
VGPU_INLINE Cell<T> to_cell(T value) {
  return __builtin_bit_cast(Bits<T>, value);
}

// d[lane] = value(lane) for the lanes that run.
template <class D, class Value>
VGPU_INLINE void write_lanes(Warp& warp, std::uint32_t slot, Value value) {
  Cell<D>* d = cells<D>(warp, slot);
  const std::uint32_t exec = warp.exec;
  if (exec == all_lanes) {
    VGPU_LANES
    for (int lane = 0; lane < lanes_per_warp; ++lane) d[lane] = to_cell<D>(value(lane));
  } else {
    VGPU_LANES
    for (int lane = 0; lane < lanes_per_warp; ++lane) {
      const Cell<D> result = to_cell<D>(value(lane));
      d[lane] = (exec >> lane & 1u) != 0 ? result : d[lane];
    }
  }
}

// The mask of lanes for which test(lane) holds.
template <class Test>
VGPU_INLINE std::uint32_t mask_of(Test test) {
  alignas(64) std::int32_t flags[lanes_per_warp];
  VGPU_LANES
  for (int lane = 0; lane < lanes_per_warp; ++lane) flags[lane] = test(lane) ? -1 : 0;
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask(_mm512_load_si512(flags)) |
         static_cast<std::uint32_t>(_mm512_movepi32_mask(_mm512_load_si512(flags + 16))) << 16;
#elif defined(__x86_64__)
  std::uint32_t mask = 0;
  for (int lane = 0; lane < lanes_per_warp; lane += 4) {
    const __m128 four = _mm_castsi128_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(flags + lane)));
    mask |= static_cast<std::uint32_t>(_mm_movemask_ps(four)) << lane;
  }
  return mask;
#else
  std::uint32_t mask = 0;
  for (int lane = 0; lane < lanes_per_warp; ++lane) mask |= (flags[lane] & 1u) << lane;
  return mask;
#endif
}

VGPU_INLINE void write_predicate(Warp& warp, std::uint32_t index, std::uint32_t mask) {
  if (index == ir::no_slot) return;
  std::uint32_t& predicate = warp.predicates[index];
  predicate = (predicate & ~warp.exec) | (mask & warp.exec);
}

VGPU_INLINE bool bit(std::uint32_t mask, int lane) {
  return (mask >> lane & 1u) != 0;
}

// lanewise<f> is the handler of d = f(a, b, c, m): as many sources as the function f takes. Flattened, because a loop
// that calls a function, however long that one is, does not become vector code.
template <auto Function>
struct Lanewise;

template <class D, class A, D (*Function)(A)>
struct Lanewise<Function> {
  [[gnu::flatten]] static void run(Warp& warp, const Inst& inst) {
    const Cell<A>* a = cells<A>(warp, inst.a);
    write_lanes<D>(warp, inst.d, [=](int lane) { return Function(from_cell<A>(a[lane])); });
  }
};

template <class D, class A, class B, D (*Function)(A, B)>
struct Lanewise<Function> {
  [[gnu::flatten]] static void run(Warp& warp, const Inst& inst) {
    const Cell<A>* a = cells<A>(warp, inst.a);
    const Cell<B>* b = cells<B>(warp, inst.b);
    write_lanes<D>(warp, inst.d, [=](int lane) { return Function(from_cell<A>(a[lane]), from_cell<B>(b[lane])); });
  }
};

template <class D, class A, class B, class C, D (*Function)(A, B, C)>
struct Lanewise<Function> {
  [[gnu::flatten]] static void run(Warp& warp, const Inst& inst) {
    const Cell<A>* a = cells<A>(warp, inst.a);
    const Cell<B>* b = cells<B>(warp, inst.b);
    const Cell<C>* c = cells<C>(warp, inst.c);
    write_lanes<D>(warp, inst.d, [=](int lane) {
      return Function(from_cell<A>(a[lane]), from_cell<B>(b[lane]), from_cell<C>(c[lane]));
    });
  }
};

template <class D, class A, class B, class C, class M, D (*Function)(A, B, C, M)>
struct Lanewise<Function> {
  [[gnu::flatten]] static void run(Warp& warp, const Inst& inst) {
    const Cell<A>* a = cells<A>(warp, inst.a);
    const Cell<B>* b = cells<B>(warp, inst.b);
    const Cell<C>* c = cells<C>(warp, inst.c);
    const Cell<M>* m = cells<M>(warp, inst.m);
    write_lanes<D>(warp, inst.d, [=](int lane) {
      return Function(from_cell<A>(a[lane]), from_cell<B>(b[lane]), from_cell<C>(c[lane]), from_cell<M>(m[lane]));
    });
  }
};

template <auto Function>
constexpr Handler lanewise = &Lanewise<Function>::run;

}  // namespace
}  // namespace flashmoe::vgpu::exec::ops::VGPU_VARIANT
