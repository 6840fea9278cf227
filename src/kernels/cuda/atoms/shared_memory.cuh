// Shared memory: rows of 16-byte chunks without bank conflicts, and matrices of 8 x 8 between them and registers.
#pragma once

#include "kernels/cuda/atoms/types.cuh"
#include "kernels/cuda/axes.hpp"

namespace flashmoe::cuda {

FMS_DEVICE uint32 shared_address(const void* pointer) {
  return static_cast<uint32>(__cvta_generic_to_shared(pointer));
}

// Rows of `Chunks` x 16 bytes, so placed that the same chunk of 8 neighbouring rows lies in 8 different groups of
// banks: what ldmatrix reads, and what a quad of lanes stores. Where the row is a power of two, chunk c of row r stands
// at c XOR r; else rows are padded to an odd number of chunks.
//
//   Chunks = 8, row bytes 128:   row 0   0 1 2 3 4 5 6 7
//                                row 1   1 0 3 2 5 4 7 6
//                                row 2   2 3 0 1 6 7 4 5   ...
template <int Chunks>
struct SharedRows {
  static constexpr int chunks = Chunks;
  static constexpr int row_bytes = shared_row_bytes(8 * Chunks);
  static constexpr bool is_swizzled = (Chunks & (Chunks - 1)) == 0;

  // What a warp copies at once, a chunk a lane: whole cache lines where rows hold them, else 8 rows, whose chunks do
  // not meet in a bank. Either way whole sectors.
  static constexpr int unit_chunks = is_swizzled && Chunks >= 8 ? 8 : 4, unit_rows = warp_lanes / unit_chunks;
  FMS_DEVICE static int unit_row(int lane) { return unit_chunks == 8 ? lane / 8 : lane % 8; }
  FMS_DEVICE static int unit_chunk(int lane) { return unit_chunks == 8 ? lane % 8 : lane / 8; }
  // A chunk of a row of the warp's first unit, so many rows on, a multiple of unit_rows: turned(at, turn_of(rows)) +
  // rows * row_bytes.
  __host__ __device__ static constexpr int turn_of(int rows) { return rows % 8; }

  FMS_DEVICE static uint32 offset(int row, int chunk) {
    if constexpr (is_swizzled) {
      // Rows shorter than all banks share them: there only every (8 / Chunks)-th row moves on.
      constexpr int rows_in_banks = Chunks < 8 ? 8 / Chunks : 1;
      constexpr int mask = (Chunks < 8 ? Chunks : 8) - 1;
      return static_cast<uint32>(row * row_bytes + ((chunk ^ (row / rows_in_banks & mask)) << 4));
    } else {
      return static_cast<uint32>(row * row_bytes + (chunk << 4));
    }
  }

  // So many chunks on from the first chunk of a row, an even number from the second: turned(at, chunks) +
  // offset_of(chunks). Only the lowest three bits of a chunk's place are exchanged, the rest is a constant, which costs
  // no instruction. `at` is a shared address, and the rows begin at a multiple of 16 * Chunks bytes.
  FMS_DEVICE static uint32 turned(uint32 at, int chunks) {
    return is_swizzled ? at ^ static_cast<uint32>((chunks & 7) << 4) : at;
  }
  __host__ __device__ static constexpr int offset_of(int chunks) { return (is_swizzled ? chunks & ~7 : chunks) << 4; }
  // f(the constant offset of the `pair`-th two chunks, of `Pairs`, in the `tile`-th 16 rows of `Tiles`); both are known
  // when the loops around it are unrolled.
  template <int Tiles, int Pairs, class F>
  FMS_DEVICE static void with_offset(int tile, int pair, const F& f) {
    constexpr int pairs_a_turn = is_swizzled ? 4 : 1, turns = (Pairs + pairs_a_turn - 1) / pairs_a_turn;
    with_constant<Tiles, 16 * row_bytes>(tile, [&](auto row) {
      with_constant<turns, offset_of(2 * pairs_a_turn), decltype(row)::value>(pair / pairs_a_turn, f);
    });
  }
};

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. Lane (g, t) receives
// elements 2t, 2t + 1 of row g of each matrix; transposed: element g of rows 2t and 2t + 1. The offset is a constant,
// so that it costs no instruction.
template <int Offset = 0>
FMS_DEVICE void load_matrices(uint32 (&to)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4+%5];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address), "n"(Offset)
               : "memory");
}
template <int Offset = 0>
FMS_DEVICE void load_matrices_transposed(uint32 (&to)[4], uint32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4+%5];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address), "n"(Offset)
               : "memory");
}

template <int Offset = 0>
FMS_DEVICE void store_shared(uint32 address, uint32 value) {
  asm volatile("st.shared.b32 [%0+%2], %1;" ::"r"(address), "r"(value), "n"(Offset) : "memory");
}
FMS_DEVICE void store_shared(uint32 address, uint4 value) {
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z),
               "r"(value.w)
               : "memory");
}
template <int Offset = 0>
FMS_DEVICE uint4 load_shared(uint32 address) {
  uint4 value;
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4+%5];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address), "n"(Offset)
               : "memory");
  return value;
}

}  // namespace flashmoe::cuda
