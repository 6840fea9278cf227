// The choices as constants, and what follows from them for a tile: places in shared memory, the pieces that a thread
// moves at once, the weight of a score.
#pragma once

#include "kernels/cuda/atoms/async_copy.cuh"
#include "kernels/cuda/atoms/mma.cuh"
#include "kernels/cuda/atoms/row_math.cuh"
#include "kernels/cuda/atoms/shared_memory.cuh"

namespace journey {

using namespace flashmoe::cuda;

enum class Layout { plain, padded, swizzled };     // of a row in shared memory
enum class Queries { direct, in_shared, staged };  // from global memory to registers; in shared memory; both in turn
enum class Exp { precise, base_2, approximate };

constexpr int rows = ROWS, warps = WARPS, keys = KEYS, splits = SPLITS;
constexpr int load_bytes = LOAD_BYTES, stages = STAGES;
constexpr bool copies_async = ASYNC, multiplies_matrices = MMA, last_cta_combines = COMBINE == 1;
constexpr auto layout = static_cast<Layout>(LAYOUT);
constexpr auto queries = static_cast<Queries>(Q_HOME);
constexpr auto exp_form = static_cast<Exp>(EXP_FORM);

constexpr int depth = 64, threads = warp_lanes * warps;
constexpr int row_bytes = 2 * depth, row_pitch = row_bytes + (layout == Layout::padded ? 16 : 0);
constexpr int tile_bytes = keys * row_pitch;  // of keys, and again of values
constexpr float scale = 0.125f;               // 1 / sqrt(depth)
constexpr float minus_infinity = -__builtin_huge_valf();

// ---- softmax -------------------------------------------------------------------------------------------------------

// The weight of a score where `level` is the largest. The difference comes first: scores may be large.
FMS_DEVICE float weight(float score, float level) {
  if constexpr (exp_form == Exp::precise) {
    return expf((score - level) * scale);
  } else if constexpr (exp_form == Exp::base_2) {
    return exp2f((score - level) * (scale * log2_of_e));
  } else {
    return exp2_fast((score - level) * (scale * log2_of_e));
  }
}

// No -infinity - (-infinity): before any key with a weight the level does not matter.
FMS_DEVICE float level_of(float top) {
  return top == minus_infinity ? 0.0f : top;
}

// ---- shared memory -------------------------------------------------------------------------------------------------

// Swizzled, 8 neighbouring rows have the same 16 bytes in 8 different groups of banks; so have padded ones.
FMS_DEVICE int place(int row, int byte) {
  if constexpr (layout == Layout::swizzled) {
    return static_cast<int>(SharedRows<depth / 8>::offset(row, byte / 16)) + byte % 16;
  } else {
    return row * row_pitch + byte;
  }
}

template <int Bytes>
struct Word {
  using Type = uint4;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<4> {
  using Type = uint32;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
using Piece = Word<load_bytes>::Type;  // what a thread moves at once
constexpr int piece_values = load_bytes / 2;

struct Values {
  float of[piece_values];
};
FMS_DEVICE Values values_at(const unsigned char* at) {
  const Piece piece = *reinterpret_cast<const Piece*>(at);
  unsigned short halves[piece_values];
  memcpy(halves, &piece, load_bytes);
  Values values;
#pragma unroll
  for (int i = 0; i < piece_values; ++i) values.of[i] = to_float<Half>(halves[i]);
  return values;
}

FMS_DEVICE void copy_piece(unsigned char* to, const unsigned char* from, bool is_there) {
  if constexpr (copies_async && load_bytes == 16) {
    copy_async_or_zero(shared_address(to), from, is_there);
  } else if constexpr (copies_async) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(load_bytes),
                 "r"(is_there ? load_bytes : 0)
                 : "memory");
  } else {
    Piece piece{};
    if (is_there) piece = *reinterpret_cast<const Piece*>(from);
    *reinterpret_cast<Piece*>(to) = piece;
  }
}

// In one instruction: two stores of 4 bytes, which the compiler may make of it, would meet in banks.
FMS_DEVICE void store_pair(float* to, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared_address(to)), "f"(first), "f"(second) : "memory");
}

// Four neighbouring lanes have a row of a 4x4 matrix each, and then a column.
FMS_DEVICE void transpose_quad(uint32 (&of)[4]) {
#pragma unroll
  for (int apart = 1; apart < 4; apart *= 2) {
    const bool is_upper = (threadIdx.x & apart) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & apart) != 0) continue;
      const uint32 given = is_upper ? of[i] : of[i + apart];
      const uint32 taken = __shfl_xor_sync(all_lanes, given, apart);
      of[i] = is_upper ? taken : of[i];
      of[i + apart] = is_upper ? of[i + apart] : taken;
    }
  }
}

// `Count` rows of a matrix from row `first` on; those from `end` on become zeros. Neighbours move neighbouring pieces.
template <int Count>
FMS_DEVICE void copy_rows(unsigned char* to, const unsigned char* from, int first, int end) {
  constexpr int pieces = row_bytes / load_bytes;
#pragma unroll 4
  for (int i = threadIdx.x; i < Count * pieces; i += threads) {
    const int row = i / pieces, byte = i % pieces * load_bytes;
    const bool is_there = first + row < end;
    copy_piece(to + place(row, byte), from + static_cast<int64>(is_there ? first + row : 0) * row_bytes + byte,
               is_there);
  }
}

}  // namespace journey
