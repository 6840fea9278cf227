#include "plan/planner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "plan/cpu_layout.hpp"
#include "plan/problem.hpp"
#include "plan/tuning/cpu.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

fms_status check_options(const fms_plan_options& options, fms_error* error) {
  if (options.struct_size != sizeof options) {
    return fail(error, FMS_INVALID_ARGUMENT, "options.struct_size", "options.struct_size is %u; allowed: %zu",
                options.struct_size, sizeof options);
  }
  const struct {
    const char* name;
    int32_t value, high;
  } fields[] = {{"options.threads", options.threads, most_threads},
                {"options.kv_splits", options.kv_splits, most_kv_splits},
                {"options.q_tile", options.q_tile, max_forced_q_tile}};
  for (const auto& field : fields) {
    if (field.value >= 0 && field.value <= field.high) continue;
    return fail(error, FMS_INVALID_ARGUMENT, field.name, "%s is %d; allowed: 0 (planner's choice) to %d", field.name,
                field.value, field.high);
  }
  return FMS_OK;
}

// Of what a tile takes for zero, a softmax scale beyond 2^30 could make a score.
bool suits_fp32_tiles(const fms_attention_problem& p, int64_t rows) {
  constexpr float largest_scale = 0x1p30F;
  if (has(p, FMS_RAGGED_Q)) rows = group_size(p) * p.total_q / p.batch;  // on average
  return std::min(rows, p.kv_len) >= amx_least_fp32_length && visible_keys_per_row(p) >= amx_least_fp32_visible &&
         std::abs(p.softmax_scale) <= largest_scale;
}

// The family and the ISA whose kernel runs it.
void choose_kernel(const DeviceCaps& caps, int64_t rows, fms_attention_plan& plan) {
  const fms_attention_problem& p = plan.problem;
  plan.cpu_isa = caps.cpu_isa;
  const CpuTilePolicy& policy = cpu_tile_policy(caps.cpu_isa);
  plan.family = policy.family;
  // AMX multiplies bf16, fp16 as two and fp32 as three of them. A scale of 0 must still see NaN and inf, which needs
  // fp32 queries.
  const bool is_left_to_vectors = p.dtype == FMS_F32 && !suits_fp32_tiles(p, rows);
  if (plan.family == FMS_KERNEL_AMX && (is_left_to_vectors || p.softmax_scale == 0.0F)) {
    plan.cpu_isa = FMS_ISA_AVX512;
    plan.family = FMS_KERNEL_TILE;
  }
  const CpuTilePolicy& chosen = cpu_tile_policy(plan.cpu_isa);
  if (rows <= chosen.gemv_max_rows) {
    const int32_t isa_rows = p.dtype == FMS_F16 ? chosen.gemv_isa_rows_f16 : chosen.gemv_isa_rows_bf16;
    if (rows < isa_rows) plan.cpu_isa = FMS_ISA_AVX512;
    plan.family = FMS_KERNEL_GEMV;
  }
}

int32_t useful_threads(const fms_attention_plan& plan, int64_t rows, int32_t limit) {
  const fms_attention_problem& p = plan.problem;
  const double scores = static_cast<double>(p.batch) * static_cast<double>(p.kv_heads * rows) * visible_keys_per_row(p);
  const CpuTilePolicy& policy = cpu_tile_policy(plan.cpu_isa);
  const double parts = plan.family == FMS_KERNEL_AMX ? static_cast<double>(amx_parts(p.dtype)) : 1.0;
  const double ns = scores * static_cast<double>(p.head_dim + p.value_dim) / 128.0 *
                    static_cast<double>(policy.ns_per_score_64) * parts;
  const double useful = ns / static_cast<double>(cpu_min_ns_per_thread);
  return std::clamp(static_cast<int32_t>(std::min(useful, 1e6)), 1, limit);
}

// Largest tile that still leaves every thread a few items to balance with.
int32_t choose_q_tile(const fms_attention_plan& plan, const CpuTilePolicy& policy, int64_t rows) {
  const fms_attention_problem& p = plan.problem;
  auto tile = static_cast<int32_t>(std::min<int64_t>(policy.max_q_tile, round_up(rows, policy.lanes)));
  if (plan.threads == 1) return tile;
  const int64_t heads = p.batch * p.kv_heads;
  while (tile > policy.lanes && heads * ((rows + tile - 1) / tile) < int64_t{8} * plan.threads) {
    tile = static_cast<int32_t>(round_up(tile / 2, policy.lanes));
  }
  return tile;
}

// Of fp32, whose three parts are six bytes, fewer keys stay in L2 (unless a bias wants longer steps).
int32_t choose_kv_tile(const fms_attention_plan& plan, const CpuTilePolicy& policy) {
  int32_t tile = policy.kv_tile;
  if (plan.family != FMS_KERNEL_AMX || plan.problem.dtype != FMS_F32) return tile;
  while (tile > amx_chunk_keys && tile / amx_chunk_keys * amx_chunk_bytes(plan.problem) > amx_block_bytes) tile /= 2;
  return tile;
}

// How much of the threads' time is work when items of so many keys are split and dealt out.
double balance_of(int64_t items, int64_t keys, int64_t splits, int64_t threads) {
  const int64_t chunks = (keys + amx_chunk_keys - 1) / amx_chunk_keys;
  const int64_t busiest = (items * splits + threads - 1) / threads * ((chunks + splits - 1) / splits);
  return static_cast<double>(items * chunks) / static_cast<double>(threads * busiest);
}

// Splitting keys pays when there are fewer items than threads and enough keys to share. A decode step has no smaller
// items to balance with, so there it also pays when items do not divide well among the threads.
int32_t choose_kv_splits(const fms_attention_plan& plan, int64_t items) {
  constexpr int64_t min_keys_per_split = 256;
  constexpr double good_balance = 0.9;
  if (plan.threads == 1) return 1;
  const auto keys = std::max<int64_t>(static_cast<int64_t>(visible_keys_per_row(plan.problem)), 1);
  const int64_t most = std::clamp<int64_t>(keys / min_keys_per_split, 1, most_kv_splits);
  if (plan.family != FMS_KERNEL_GEMV) {
    const int64_t wanted = std::min((plan.threads + items - 1) / items, plan.problem.kv_len / min_keys_per_split);
    return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, most_kv_splits));
  }
  int64_t best = 1;
  double best_balance = 0.0;
  for (int64_t splits = 1; splits <= most && splits <= 2 * plan.threads && best_balance < good_balance; ++splits) {
    const double balance = balance_of(items, keys, splits, plan.threads);
    if (balance > best_balance) {
      best = splits;
      best_balance = balance;
    }
  }
  return static_cast<int32_t>(best);
}

// Every thread packs for itself: reading what another core has packed costs more than packing it again.
fms_pack_mode choose_pack(const fms_attention_plan& plan, int64_t rows) {
  constexpr int64_t max_packed_bytes = int64_t{256} << 20;  // of all threads together
  const bool used_once = plan.q_tile >= rows;
  const int64_t head_bytes = amx_head_chunks(plan.problem) * amx_chunk_bytes(plan.problem);
  return used_once || head_bytes > max_packed_bytes / plan.threads ? FMS_PACK_BLOCK : FMS_PACK_HEAD;
}

void plan_cpu(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan) {
  const fms_attention_problem& p = plan.problem;
  const int64_t rows = group_size(p) * p.q_len;
  choose_kernel(caps, rows, plan);
  plan.threads = useful_threads(plan, rows, options.threads > 0 ? options.threads : caps.max_threads);
  const CpuTilePolicy& policy = cpu_tile_policy(plan.cpu_isa);
  if (plan.family == FMS_KERNEL_GEMV) {
    plan.q_tile = static_cast<int32_t>(options.q_tile > 0 ? std::min<int64_t>(options.q_tile, rows) : rows);
    plan.kv_tile = gemv_kv_tile;
  } else {
    plan.q_tile = options.q_tile > 0 ? static_cast<int32_t>(round_up(options.q_tile, policy.lanes))
                                     : choose_q_tile(plan, policy, rows);
    const bool has_bias = (p.features & (FMS_BIAS | FMS_BIAS2)) != 0;
    plan.kv_tile = choose_kv_tile(plan, policy);
    if (has_bias) plan.kv_tile = std::max(plan.kv_tile, cpu_bias_kv_tile);
  }
  const int64_t items = p.batch * p.kv_heads * ((rows + plan.q_tile - 1) / plan.q_tile);
  plan.kv_splits = options.kv_splits > 0 ? options.kv_splits : choose_kv_splits(plan, items);
  plan.work_items = items * plan.kv_splits;
  plan.threads = static_cast<int32_t>(std::min<int64_t>(plan.threads, plan.work_items));
  plan.pack = FMS_PACK_NONE;
  if (plan.family == FMS_KERNEL_AMX) plan.pack = choose_pack(plan, rows);
}

// The problem without what its features leave unused: that was not checked, so nothing may look at it, and plans of the
// same problem are then the same bytes.
fms_attention_problem canonical(const fms_attention_problem& problem) {
  fms_attention_problem p = problem;
  if (!has(p, FMS_LSE)) p.lse = {};
  if (!has(p, FMS_BIAS)) {
    p.bias = {};
    p.bias_dtype = p.dtype;
  }
  if (!has(p, FMS_BIAS2)) {
    p.bias2 = {};
    p.bias2_dtype = p.dtype;
  }
  p.bias.group = bias_group(p.bias);
  p.bias2.group = bias_group(p.bias2);
  if (has(p, FMS_MASK)) {
    p.mask.group = bias_group(p.mask);
  } else {
    p.mask = {};
  }
  if (!has(p, FMS_KV_SCALES)) p.kv_dtype = {};
  if (has(p, FMS_RAGGED_Q)) {
    p.q.batch = p.o.batch = p.lse.batch = 0;
  } else {
    p.total_q = 0;
  }
  if (has(p, FMS_RAGGED_KV)) {
    p.k.batch = p.v.batch = 0;
  } else {
    p.total_kv = 0;
  }
  if (!has(p, FMS_PAGED_KV)) p.page_size = p.page_count = p.block_table_stride = 0;
  return p;
}

// A GPU's plan, kept with what it was made of. Who plans before each run plans the same few problems, and a device's
// figures and kernels do not change.
struct KeptPlan {
  uint64_t kernels = 0;  // at first no device's
  fms_attention_problem problem{};
  fms_plan_options options{};
  fms_attention_plan plan{};

  [[nodiscard]] bool is_of(uint64_t asked_kernels, const fms_attention_problem& asked,
                           const fms_plan_options& asked_options) const {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bytes that differ and mean the same are planned anew
    return kernels == asked_kernels && std::memcmp(&problem, &asked, sizeof asked) == 0 &&
           std::memcmp(&options, &asked_options, sizeof asked_options) == 0;
  }
};

KeptPlan& kept_plan(const fms_attention_problem& p) {
  constexpr std::size_t count = 16;
  thread_local KeptPlan kept[count];
  uint64_t hash = p.features;
  for (const int64_t one : {p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim, p.window_right, p.total_q}) {
    hash = (hash ^ static_cast<uint64_t>(one)) * 0x9e3779b97f4a7c15U;
  }
  static_assert(count == 1U << (64 - 60));
  return kept[hash >> 60];
}

}  // namespace

uint64_t fingerprint_of(const fms_attention_plan& plan) {
  // Multiply-xorshift over 8-byte words: a checksum against accidents, cheap enough for every run. Four chains side by
  // side, because each step waits for the one before.
  constexpr std::size_t from = offsetof(fms_attention_plan, fingerprint) + sizeof plan.fingerprint;
  static_assert((sizeof plan - from) % sizeof(uint64_t) == 0);
  constexpr std::size_t count = (sizeof plan - from) / sizeof(uint64_t), chains = 4;
  uint64_t words[(count + chains - 1) / chains * chains] = {};
  std::memcpy(words, reinterpret_cast<const char*>(&plan) + from, sizeof plan - from);
  const auto mixed = [](uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
    return hash ^ (hash >> 29);
  };
  uint64_t hash[chains] = {FMS_PLAN_VERSION, 1, 2, 3};
  for (std::size_t i = 0; i < std::size(words); i += chains) {
    for (std::size_t chain = 0; chain < chains; ++chain) hash[chain] = mixed(hash[chain], words[i + chain]);
  }
  return mixed(mixed(mixed(hash[0], hash[1]), hash[2]), hash[3]);
}

void begin_plan(const DeviceCaps& caps, const fms_attention_problem& problem, fms_attention_plan& plan) {
  plan = {};
  plan.struct_size = sizeof plan;
  plan.version = FMS_PLAN_VERSION;
  plan.device_kind = caps.kind;
  plan.problem = canonical(problem);
  plan.cpu_isa = caps.cpu_isa;
  plan.threads = 1;
  plan.kv_splits = 1;
  plan.family = FMS_KERNEL_EMPTY;
}

fms_status choose(const DeviceCaps& caps, const fms_attention_problem& problem, const fms_plan_options& options,
                  fms_attention_plan& plan, fms_error* error) {
  begin_plan(caps, problem, plan);
  if (caps.kind == FMS_DEVICE_CUDA) {
    if (auto s = is_empty(problem) ? FMS_OK : plan_cuda(caps, options, plan, error)) return s;
  } else {
    if (!is_empty(problem)) plan_cpu(caps, options, plan);
    const CpuLayout layout = cpu_layout(plan);
    plan.thread_bytes = layout.thread_bytes;
    plan.workspace_bytes = layout.total_bytes;
  }
  if (plan.workspace_bytes <= uint64_t{max_workspace_bytes}) return FMS_OK;
  return fail(error, FMS_NOT_SUPPORTED, "problem",
              "this plan would need %llu bytes of workspace; allowed: %lld. Force fewer kv_splits or threads",
              static_cast<unsigned long long>(plan.workspace_bytes), static_cast<long long>(max_workspace_bytes));
}

fms_status make_plan(const DeviceCaps& caps, const fms_attention_problem& problem, const fms_plan_options* options,
                     fms_attention_plan* plan, fms_error* error) {
  const fms_plan_options chosen = options != nullptr ? *options : fms_plan_options{sizeof chosen, 0, 0, 0};
  KeptPlan* kept = nullptr;
  if (caps.cuda_kernels != nullptr) {
    kept = &kept_plan(problem);
    if (kept->is_of(caps.cuda_kernels->id, problem, chosen)) {
      *plan = kept->plan;
      return FMS_OK;
    }
  }
  if (auto s = check_problem(problem, error)) return s;
  if (auto s = check_options(chosen, error)) return s;
  fms_attention_plan made;  // not *plan: the problem may be the one inside it, and a failure leaves it as it was
  if (auto s = choose(caps, problem, chosen, made, error)) return s;
  made.fingerprint = fingerprint_of(made);
  if (kept != nullptr) *kept = {caps.cuda_kernels->id, problem, chosen, made};
  *plan = made;
  return FMS_OK;
}

}  // namespace flashmoe::plan
