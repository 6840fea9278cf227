// CPU tuning policies as data, one per ISA level. `chosen_by` says which run chose the figures.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

struct CpuTilePolicy {
  fms_cpu_isa isa;
  fms_kernel_family family;
  int32_t lanes;          // query rows that one step works on side by side
  int32_t kv_tile;        // keys per step: between steps the accumulators go through memory
  int32_t max_q_tile;     // rows per work item: more re-use of each packed key, more state in L2
  int32_t gemv_max_rows;  // up to this many rows per kv head, reading K and V once as vectors is faster than tiles
  int32_t gemv_isa_rows_bf16, gemv_isa_rows_f16;  // from this many on, this level does that; below, the one before
  float ns_per_score_64;                          // one score at head_dim 64, for deciding how many threads pay off
  const char* chosen_by;
};

// Rows of a head, and keys: to pack keys in three parts takes as long as tiles gain with a hundred rows (measured: 1.06
// times as fast as AVX-512 with 64 and 128 rows, 1.4 with 256), and a tile unit that others slow down shows most in
// what is short.
inline constexpr int64_t amx_least_fp32_length = 129;
// Keys that a row sees: through narrower windows few rows see a packed key (windows of 15 and 63 of 2,048 keys: 0.84
// and 1.04).
inline constexpr double amx_least_fp32_visible = 64;

// The kernels assert that `lanes` is what they have registers for.
inline constexpr CpuTilePolicy cpu_tile_policies[] = {
    {FMS_ISA_SCALAR, FMS_KERNEL_TILE, 8, 64, 64, 3, 1, 1, 30.0F, "bench, 2-core Emerald Rapids class VM"},
    {FMS_ISA_AVX2, FMS_KERNEL_TILE, 16, 64, 192, 8, 1, 1, 3.0F, "bench, 2-core Emerald Rapids class VM"},
    {FMS_ISA_AVX512, FMS_KERNEL_TILE, 48, 64, 192, 12, 1, 1, 1.5F, "bench, 2-core Emerald Rapids class VM"},
    {FMS_ISA_AMX, FMS_KERNEL_AMX, 32, 512, 256, 16, 1, 13, 1.2F, "bench, 2-core Emerald Rapids class VM"},
};

// A plan is checked by planning again at its own level, which has to take as many rows as are handed down to it.
static_assert(cpu_tile_policies[3].gemv_isa_rows_f16 <= cpu_tile_policies[2].gemv_max_rows + 1);

// With a bias at least this many keys per step: each query row has a bias row of its own, and memory is read ahead only
// within longer pieces of one.
inline constexpr int32_t cpu_bias_kv_tile = 256;

// Opening a parallel region with a warm pool costs one to two microseconds; a thread should bring at least this much.
inline constexpr float cpu_min_ns_per_thread = 2200.0F;

// Blocks of keys whose masks the kernels have room for.
inline constexpr int32_t cpu_most_kv_tile = 512;
static_assert(cpu_bias_kv_tile <= cpu_most_kv_tile);
static_assert(std::ranges::all_of(cpu_tile_policies,
                                  [](const CpuTilePolicy& one) { return one.kv_tile <= cpu_most_kv_tile; }));

constexpr const CpuTilePolicy& cpu_tile_policy(fms_cpu_isa isa) {
  return cpu_tile_policies[isa - FMS_ISA_SCALAR];
}

}  // namespace flashmoe::plan
