// Where everything lies in a CPU run's workspace. The planner asks for the total, the kernels for the offsets: one
// computation, so that they cannot disagree.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flashmoe/flashmoe.h"
#include "plan/problem.hpp"
#include "plan/tuning/cpu.hpp"

namespace flashmoe::plan {

inline constexpr int64_t amx_chunk_keys = 32;  // keys of one packed chunk: the depth of one bf16 tile product
inline constexpr int64_t amx_tile_bytes = 1024;
inline constexpr int32_t gemv_kv_tile = 64;
inline constexpr int64_t amx_few_rows = 16;  // query rows of one tile: what the GEMV family on tiles has room for
inline constexpr int32_t max_forced_q_tile = 4096;

inline constexpr int64_t round_up(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

// bf16 parts that carry one value exactly: fp16 is a high and a low bf16, fp32 is three.
inline int64_t amx_parts(fms_dtype dtype) {
  return dtype == FMS_BF16 ? 1 : dtype == FMS_F16 ? 2 : 3;
}

// K: two 16-key halves x D/32 tiles; V transposed: value D/16 tiles. Per part.
inline int64_t amx_chunk_bytes(const fms_attention_problem& p) {
  return amx_parts(p.dtype) * (2 * (round_up(p.head_dim, 32) / 32) + round_up(p.value_dim, 32) / 16) * amx_tile_bytes;
}

// A quarter of a 2 MiB L2 for packed keys and values, the rest for queries, accumulators and what comes next.
inline constexpr int64_t amx_block_bytes = 512 * 1024;

// Keys that stay in L2 while all subtiles of an item pass over them.
inline int64_t amx_block_keys(const fms_attention_problem& p, int64_t kv_tile) {
  const int64_t steps = amx_block_bytes / (amx_chunk_bytes(p) * (kv_tile / amx_chunk_keys));
  return kv_tile * (steps > 1 ? steps : 1);
}

inline int64_t amx_head_chunks(const fms_attention_problem& p) {
  return round_up(p.kv_len, amx_chunk_keys) / amx_chunk_keys;
}

struct CpuLayout {
  // offsets inside one thread's part
  std::size_t q = 0;        // packed query rows
  std::size_t o = 0;        // fp32 accumulators, (padded_value_dim, lanes) per subtile
  std::size_t row_max = 0;  // lanes floats per subtile, log2 units
  std::size_t row_sum = 0;
  std::size_t key_lo = 0;  // lanes int32 per subtile: visible keys are [key_lo, key_hi)
  std::size_t key_hi = 0;
  std::size_t scores = 0;
  std::size_t weights = 0;      // AMX: bf16 tiles of P
  std::size_t k = 0;            // TILE: fp32 copy of a key block; GEMV: one zero-padded row
  std::size_t v = 0;            // TILE: the same of values; GEMV on tiles: values that cannot be read where they are
  std::size_t query_tiles = 0;  // GEMV on tiles: Q, packed
  std::size_t key_tiles = 0;    // ... keys of a block that cannot be read where they are
  std::size_t products = 0;     // ... scores as tiles store them
  std::size_t tile_sums = 0;    // ... outputs as tiles sum them
  std::size_t row_sums = 0;     // ... a row's sum, in parts
  std::size_t pack = 0;         // AMX: packed keys and values, then what is known of each chunk
  std::size_t widened = 0;      // a head's keys and then its values in the type of the queries (FMS_KV_SCALES)
  std::size_t few_rows = 0;     // AMX: where few_rows_layout() begins
  std::size_t thread_bytes = 0;

  int64_t padded_dim = 0;        // of queries and keys
  int64_t padded_value_dim = 0;  // of values and accumulators
  int64_t subtiles = 0;
  int64_t block_keys = 0;            // AMX: keys that stay in L2 while all subtiles of an item pass over them
  int64_t pack_chunks = 0;           // chunks that the pack buffer holds: a ring when fewer than the head has
  std::size_t pack_flags = 0;        // a byte per chunk
  std::size_t pack_low_squares = 0;  // a float per chunk

  // offsets from the workspace's start; thread t's part is at t * thread_bytes
  std::size_t partials = 0;    // kv_splits > 1: (o[padded_value_dim], max, sum) per row and split
  int64_t partial_floats = 0;  // floats per partial row
  std::size_t total_bytes = 0;
};

// Reads the plan's family, pack, threads, kv_splits, q_tile, kv_tile and problem.
CpuLayout cpu_layout(const fms_attention_plan& plan);

// Whether sequences of a ragged batch may have so few rows that they are decoded beside AMX's long ones.
inline bool has_few_rows_beside(const fms_attention_plan& plan) {
  return plan.family == FMS_KERNEL_AMX && has(plan.problem, FMS_RAGGED_Q) && group_size(plan.problem) <= amx_few_rows;
}
// ... and then their kernel's part of the same workspace.
CpuLayout few_rows_layout(const fms_attention_plan& plan, const CpuLayout& layout);

}  // namespace flashmoe::plan
