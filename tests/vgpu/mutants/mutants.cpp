// One edit each; the check that must say so, and a word of what it says.
#include "vgpu/mutants/corpus.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

using observe::Check;
constexpr auto mem = Check::memcheck, init = Check::initcheck, race = Check::racecheck, sync = Check::synccheck;
constexpr const char* barrier = "__syncthreads();";

std::vector<Mutant> make() {
  return {
      // Bounds and indices.
      {"no_guard", "copy", "if (i < n) out", "out", mem, "past the end"},
      {"guard_off_by_one", "copy", "i < n", "i <= n", mem, "past the end"},
      {"loop_one_too_far", "saxpy", "i < n; i", "i <= n; i", mem, "past the end"},
      {"wrong_pitch", "transpose", "in[(y + r) * n + x]", "in[(y + r) * (n + 1) + x]", mem, "past the end"},
      {"row_overrun", "stencil", "row[130]", "row[128]", mem, "shared memory"},
      {"no_upper_guard", "stencil", "i + 1 < n ? in[i + 1] : 0.0f", "in[i + 1 - 2 * n]", mem, ""},
      {"pool_too_small", "dynamic_shared", "pool + blockDim.x;", "pool + blockDim.x + 1;", mem, "shared memory"},
      {"misaligned_vector", "matvec", "(in + row * n)", "(in + row * n + 1)", mem, "misaligned"},
      {"misaligned_copy", "copy_async", "&tile[t * 4], in", "&tile[t * 4 + 1], in", mem, ""},
      {"row_past_end", "softmax", "if (row >= n) return;", "", mem, "past the end"},
      {"bin_mask_dropped", "histogram", "& 15], 1u", "+ 16384], 1u", mem, "shared memory"},
      {"atomic_out_of_bounds", "atomic_max", "&work[0]", "&work[4096]", mem, "past the end"},
      {"local_overrun", "local_array", "seen[((int)in[i % n] + 8) & 15]", "seen[((int)in[i % n] + 8) + 4000]", mem,
       "local memory"},
      {"null_pointer", "reduce_tree", "out[blockIdx.x] = sums[0]", "((float*)(size_t)work[5])[blockIdx.x] = sums[0]",
       mem, ""},
      // Barriers.
      {"no_barrier_after_load", "transpose", barrier, "", race, "race"},
      {"no_barrier_first", "reduce_tree", barrier, "", race, "race"},
      {"no_barrier_in_loop", "reduce_tree", "+= sums[t + half];\n    __syncthreads();", "+= sums[t + half];", race,
       "race"},
      {"no_barrier_warp_sums", "reduce_shuffle", barrier, "", race, "race"},
      {"no_barrier_bins", "histogram", barrier, "", race, "race"},
      {"no_barrier_before_flush", "histogram", "1u);\n  __syncthreads();", "1u);", race, "race"},
      {"no_barrier_scan", "scan", "now = 1 - now;\n    __syncthreads();", "now = 1 - now;", race, "race"},
      {"one_scan_buffer", "scan", "buffer[1 - now][t] =", "buffer[now][t] =", race, "race"},
      {"no_barrier_before_use", "matmul", barrier, "", race, "race"},
      {"no_barrier_after_use", "matmul", "b[i][threadIdx.x];\n    __syncthreads();", "b[i][threadIdx.x];", race,
       "race"},
      {"no_barrier_halo", "stencil", barrier, "", race, "race"},
      {"no_barrier_mean", "layernorm", "mean = total / 256.0f;\n  }\n  __syncthreads();", "mean = total / 256.0f;\n  }",
       race, "race"},
      {"no_barrier_sort", "bitonic", "      __syncthreads();\n", "", race, "race"},
      {"no_barrier_dynamic", "dynamic_shared", barrier, "", race, "race"},
      {"no_barrier_before_keys", "attention", "most = greater;\n    }\n    __syncthreads();", "most = greater;\n    }",
       race, "race"},
      {"barrier_in_branch", "stencil", "if (t == 127) row[129] = i + 1 < n ? in[i + 1] : 0.0f;\n  __syncthreads();",
       "if (t == 127) row[129] = i + 1 < n ? in[i + 1] : 0.0f;\n  if (t % 2 == 0) __syncthreads();", sync, "barrier"},
      {"arrive_dropped", "named_barriers",
       "if (round + 1 < n / 64) asm volatile(\"bar.arrive 2, 128;\" ::: \"memory\");", "", sync, ""},
      {"wrong_count", "named_barriers", "bar.sync 2, 128;", "bar.sync 2, 64;", sync, "count"},
      {"empty_not_waited_for", "named_barriers", "if (round > 0) asm volatile(\"bar.sync 2, 128;\" ::: \"memory\");",
       "", race, "race"},
      {"same_barrier_twice", "named_barriers", "\"bar.arrive 1, 128;\"", "\"bar.arrive 3, 128;\"", sync, ""},
      // Warps.
      {"no_syncwarp_written", "warp_exchange", "__syncwarp();  // written", "", race, "within a warp"},
      {"no_syncwarp_read", "warp_exchange", "__syncwarp();  // read", "", race, "within a warp"},
      {"syncwarp_before_ldmatrix", "mma_swizzled", "__syncwarp();", "", race, "within a warp"},
      {"neighbour_half", "half_warps", "first + (lane + 5) % 16", "(lane + 5) % 32", race, "within a warp"},
      {"one_branch_does_not_wait", "sync_in_branches", "values[t] = in[t];\n    __syncwarp();", "values[t] = in[t];",
       race, "within a warp"},
      {"count_not_reset_yet", "reset_count", "__syncthreads();  // reset", "", race, "race"},
      {"not_added_yet", "cas_add", barrier, "", race, "race"},
      {"not_counted_yet", "reset_count", "__syncthreads();  // counted", "", race, "race"},
      {"exit_without_barrier", "early_exit", barrier, "", race, "race"},
      {"mask_bit_missing", "partial_masks", "0x55555555u", "0x55555554u", sync, "mask"},
      {"mask_of_absent_lanes", "partial_masks", "0xaaaaaaaau", "0xffffffffu", sync, ""},
      {"one_place_for_all", "warp_exchange", "of_warp[warp][lane] = value", "of_warp[warp][lane / 2] = value", race,
       "different values"},
      // Asynchronous copies.
      {"no_wait", "copy_async", "  wait<0>();\n", "", sync, "under way"},
      {"no_barrier_after_wait", "copy_async", barrier, "", race, "asynchronous"},
      {"wait_one_too_weak", "pipeline2", "wait<1>", "wait<2>", sync, "under way"},
      {"commit_dropped", "copy_async", "  commit();\n", "", sync, "under way"},
      {"no_barrier_before_refill", "pipeline2", "& 511];\n    __syncthreads();", "& 511];", race, "race"},
      {"no_barrier_ring", "pipeline3", barrier, "", race, "race"},
      {"ring_too_short", "pipeline3", "next % 3", "next % 2", race, "race"},
      {"wait_too_weak_ring", "pipeline3", "wait<1>", "wait<2>", sync, "under way"},
      {"wait_all_dropped", "copy_zero_fill", "  asm volatile(\"cp.async.wait_all;\" ::: \"memory\");\n", "", sync,
       "under way"},
      // Fences, locks and scopes.
      {"no_release_fence", "last_block", "__threadfence();  // release", "", race, "race"},
      {"no_acquire_fence", "last_block", "__threadfence();  // acquire", "", race, "race"},
      {"block_fence_only", "last_block", "__threadfence();  // release", "__threadfence_block();", race, "race"},
      {"no_lock", "spin_lock", "while (atomicCAS(work, 0u, 1u) != 0u) {\n    }", "", race, "race"},
      {"lock_without_acquire", "spin_lock", "__threadfence();  // acquire", "", race, "race"},
      {"lock_without_release", "spin_lock", "__threadfence();  // release", "", race, "race"},
      {"weak_flag", "acquire_release", "st.release.gpu", "st.relaxed.gpu", race, "race"},
      {"weak_poll", "acquire_release", "ld.acquire.gpu", "ld.relaxed.gpu", race, "race"},
      {"flag_without_fence", "flag", "__threadfence();  // acquire", "", race, "race"},
      {"block_scope_atomic", "atomic_max", "atomicMax(", "atomicMax_block(", race, "block scope"},
      {"grid_barrier_no_release", "grid_barrier", "__threadfence();  // release", "", race, "race"},
      {"grid_barrier_no_barrier", "grid_barrier", "__syncthreads();\n  if", "if", race, "race"},
      {"lookback_no_fence", "lookback", "__threadfence();  // release", "", race, "race"},
      {"plain_counter", "histogram", "atomicAdd(&bins[(int)(in[i] + 8.0f) & 15], 1u)",
       "bins[(int)(in[i] + 8.0f) & 15] += 1u", race, "race"},
      // Values that were never set.
      {"bins_not_cleared", "histogram", "if (threadIdx.x < 16) bins[threadIdx.x] = 0;", "", init, "never set"},
      {"halo_not_set", "stencil", "if (t == 0) row[0] = i > 0 ? in[i - 1] : 0.0f;", "", init, "never set"},
      {"array_not_cleared", "local_array", "for (int k = 0; k < 16; ++k) seen[k] = 0.0f;", "", init, "never set"},
      {"rows_too_many", "mma_rows", "if (row < n) out", "out", init, "never set"},
      {"half_a_tile", "transpose", "r < 32; r += 8) tile", "r < 16; r += 8) tile", init, "never set"},
      {"copy_too_short", "copy_async", "copy16(&tile[t * 4]", "if (t < 64) copy16(&tile[t * 4]", init, "never set"},
      {"columns_missing", "mma_swizzled", "i < 8 * 16; i += 32) b", "i < 7 * 16; i += 32) b", init, "never set"},
      {"reads_own_output", "reduce_tree", "sums[t] = in[", "sums[t] = out[0 * t] + in[", init, "never set"},
  };
}

}  // namespace

const std::vector<Mutant>& mutants() {
  static const std::vector<Mutant> list = make();
  return list;
}

}  // namespace flashmoe::vgpu::corpus
