#include "plan/cpu_layout.hpp"

#include <algorithm>

namespace flashmoe::plan {
namespace {

class Arena {
 public:
  explicit Arena(std::size_t from = 0) : end_(from) {}
  std::size_t take(__int128 count, std::size_t element_bytes) {
    const __int128 at = end_;
    end_ += (count * element_bytes + FMS_WORKSPACE_ALIGNMENT - 1) / FMS_WORKSPACE_ALIGNMENT * FMS_WORKSPACE_ALIGNMENT;
    return clamped(at);
  }
  [[nodiscard]] std::size_t end() const { return clamped(end_); }

 private:
  // Sizes beyond any memory stay so: the planner refuses them, and nothing wraps around.
  static std::size_t clamped(__int128 bytes) {
    constexpr __int128 most = __int128{1} << 62;
    return static_cast<std::size_t>(bytes < most ? bytes : most);
  }

  __int128 end_;
};

void lay_out_tiles(const fms_attention_plan& plan, int64_t lanes, Arena& arena, CpuLayout& layout) {
  const fms_attention_problem& p = plan.problem;
  const bool amx = plan.family == FMS_KERNEL_AMX;
  layout.padded_dim = round_up(p.head_dim, amx ? 32 : 16);
  layout.padded_value_dim = round_up(p.value_dim, amx ? 32 : 16);
  layout.subtiles = plan.q_tile / lanes;
  const int64_t rows = layout.subtiles * lanes;
  const int64_t q_bytes = amx ? 2 * amx_parts(p.dtype) : 4;
  layout.q = arena.take(rows * layout.padded_dim, static_cast<std::size_t>(q_bytes));
  layout.o = arena.take(rows * layout.padded_value_dim, sizeof(float));
  layout.row_max = arena.take(rows, sizeof(float));
  layout.row_sum = arena.take(rows, sizeof(float));
  layout.key_lo = arena.take(rows, sizeof(int32_t));
  layout.key_hi = arena.take(rows, sizeof(int32_t));
  const int64_t buffers = amx ? 2 : 1;  // one step's while another's are computed
  layout.scores = arena.take(buffers * plan.kv_tile * lanes, sizeof(float));
  if (amx) {
    layout.weights = arena.take(buffers * plan.kv_tile * lanes, static_cast<std::size_t>(2 * amx_parts(p.dtype)));
    return;
  }
  layout.k = arena.take(plan.kv_tile * layout.padded_dim, sizeof(float));
  layout.v = arena.take(plan.kv_tile * layout.padded_value_dim, sizeof(float));
}

void lay_out_gemv(const fms_attention_plan& plan, Arena& arena, CpuLayout& layout) {
  const fms_attention_problem& p = plan.problem;
  layout.padded_dim = round_up(p.head_dim, 32);
  layout.padded_value_dim = round_up(p.value_dim, 32);
  layout.subtiles = 1;
  layout.q = arena.take(plan.q_tile * layout.padded_dim, sizeof(float));
  layout.o = arena.take(plan.q_tile * layout.padded_value_dim, sizeof(float));
  layout.row_max = arena.take(plan.q_tile, sizeof(float));
  layout.row_sum = arena.take(plan.q_tile, sizeof(float));
  layout.key_lo = arena.take(plan.q_tile, sizeof(int32_t));
  layout.key_hi = arena.take(plan.q_tile, sizeof(int32_t));
  layout.scores = arena.take(plan.q_tile * plan.kv_tile, sizeof(float));
  layout.k = arena.take(std::max(layout.padded_dim, layout.padded_value_dim), sizeof(float));
  if (plan.cpu_isa != FMS_ISA_AMX) return;
  const auto bytes = static_cast<std::size_t>(2 * amx_parts(p.dtype));           // of a value in bf16 parts
  layout.query_tiles = arena.take(2 * amx_few_rows * layout.padded_dim, bytes);  // of two items
  layout.key_tiles = arena.take(plan.kv_tile * layout.padded_dim, bytes);
  layout.v = arena.take(plan.kv_tile * layout.padded_value_dim, bytes);
  layout.weights = arena.take(2 * amx_few_rows * plan.kv_tile, 2 * bytes);  // twice, and each beside a 0
  layout.row_sums = arena.take(amx_few_rows * 16, sizeof(float));
  layout.products = arena.take(2 * amx_few_rows * plan.kv_tile, sizeof(float));  // of two blocks
  layout.tile_sums = arena.take(amx_few_rows * layout.padded_value_dim, sizeof(float));
}

fms_attention_plan few_rows_plan(const fms_attention_plan& plan) {
  fms_attention_plan few = plan;
  few.family = FMS_KERNEL_GEMV;
  few.cpu_isa = plan.problem.dtype == FMS_F32 ? FMS_ISA_AVX512 : FMS_ISA_AMX;
  few.q_tile = static_cast<int32_t>(amx_few_rows);
  few.kv_tile = gemv_kv_tile;
  return few;
}

}  // namespace

CpuLayout few_rows_layout(const fms_attention_plan& plan, const CpuLayout& layout) {
  CpuLayout few = layout;
  Arena arena(layout.few_rows);
  lay_out_gemv(few_rows_plan(plan), arena, few);
  return few;
}

CpuLayout cpu_layout(const fms_attention_plan& plan) {
  CpuLayout layout;
  if (plan.family == FMS_KERNEL_EMPTY) return layout;
  const fms_attention_problem& p = plan.problem;
  Arena thread;
  if (plan.family == FMS_KERNEL_GEMV) {
    lay_out_gemv(plan, thread, layout);
  } else {
    lay_out_tiles(plan, cpu_tile_policy(plan.cpu_isa).lanes, thread, layout);
  }
  if (plan.pack != FMS_PACK_NONE) {
    layout.block_keys = amx_block_keys(p, plan.kv_tile);
    const int64_t head_chunks = amx_head_chunks(p);
    const int64_t block_chunks = layout.block_keys / amx_chunk_keys;
    layout.pack_chunks = plan.pack == FMS_PACK_HEAD || head_chunks < block_chunks ? head_chunks : block_chunks;
    layout.pack = thread.take(layout.pack_chunks, static_cast<std::size_t>(amx_chunk_bytes(p)));
    layout.pack_flags = thread.take(layout.pack_chunks, 1);
    layout.pack_low_squares = thread.take(layout.pack_chunks, sizeof(float));
  }
  if (has(p, FMS_KV_SCALES)) {
    const __int128 elements = static_cast<__int128>(p.kv_len) * (p.head_dim + p.value_dim);
    layout.widened = thread.take(elements, static_cast<std::size_t>(element_bytes(p.dtype)));
  }
  if (has_few_rows_beside(plan)) {
    layout.few_rows = thread.end();
    CpuLayout few;
    lay_out_gemv(few_rows_plan(plan), thread, few);
  }
  // A page apart, so that neighbours share neither a line nor an adjacent-line prefetch.
  layout.thread_bytes = static_cast<std::size_t>(round_up(static_cast<int64_t>(thread.end()), 4096));

  Arena shared;
  shared.take(plan.threads, layout.thread_bytes);
  if (plan.kv_splits > 1) {
    layout.partial_floats = layout.padded_value_dim + 16;
    const __int128 rows = static_cast<__int128>(p.batch) * p.q_heads * p.q_len;
    layout.partials = shared.take(rows * plan.kv_splits * layout.partial_floats, sizeof(float));
  }
  layout.total_bytes = shared.end();
  return layout;
}

}  // namespace flashmoe::plan
