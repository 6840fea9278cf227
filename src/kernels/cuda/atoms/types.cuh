// What device code needs before any header: it compiles under nvcc and NVRTC alike, without the standard library.
#pragma once

#define FMS_DEVICE __device__ __forceinline__

namespace flashmoe::cuda {

using uint32 = unsigned int;
using int64 = long long;

// Element types are names: values live in registers as pairs.
struct Half {
  static constexpr uint32 exponent_mask = 0x7c00;
};
struct BFloat16 {
  static constexpr uint32 exponent_mask = 0x7f80;
};

// threadIdx.x, and the compiler does not know that it has seen it before.
FMS_DEVICE uint32 thread_index_anew() {
  uint32 index;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
  return index;
}

// The compiler does not merge a branch in which this stands with what is before it: what it sets is set there alone.
FMS_DEVICE void branch_of_its_own() {
  asm volatile("");
}

// The same number, and the compiler does not know what it is made of, nor may it find out earlier.
FMS_DEVICE int made_here(int number) {
  asm volatile("" : "+r"(number));
  return number;
}

// f(Constant<0>), f(Constant<2>) ... below End: what f makes of the number is a constant too, as the offset of an
// address has to be.
template <int Value>
struct Constant {
  static constexpr int value = Value;
  __host__ __device__ constexpr operator int() const { return Value; }
};
template <int End, int Step, int Begin = 0, class F>
FMS_DEVICE void unrolled(const F& f) {
  if constexpr (Begin < End) {
    f(Constant<Begin>{});
    unrolled<End, Step, Begin + Step>(f);
  }
}

// f(Constant<Begin + index * Step>), for an index below Count that is known when the loops around this are unrolled.
// The compiler looks at a loop once before it copies it, but at what `unrolled` calls each time: for many products that
// takes five times as long.
template <int Count, int Step, int Begin = 0, class F>
FMS_DEVICE void with_constant(int index, const F& f) {
  if constexpr (Count == 1) {
    f(Constant<Begin>{});
  } else if (index < Count / 2) {
    with_constant<Count / 2, Step, Begin>(index, f);
  } else {
    with_constant<Count - Count / 2, Step, Begin + Count / 2 * Step>(index - Count / 2, f);
  }
}

// The part of a number that is known when it is compiled: of a Constant all of it.
template <class Number>
inline constexpr int known_part = 0;
template <int Value>
inline constexpr int known_part<Constant<Value>> = Value;

inline constexpr int warp_lanes = 32;
inline constexpr uint32 all_lanes = 0xffffffffu;

}  // namespace flashmoe::cuda
