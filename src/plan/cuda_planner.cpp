// Plans for a GPU: which kernel, and over how many CTAs the keys are split. Every kernel that fits is tried with the
// splits that fill the machine once, twice, ... and with a few that shorten the last wave; the least estimated time
// wins, and of equals the smaller tile, which computes less in vain.
#include <algorithm>
#include <bit>

#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

// Kernels count rows and keys in 32 bits, and add windows of up to 2^30 to them.
constexpr int64_t most_rows_or_keys = (int64_t{1} << 30) - 1;
constexpr int64_t most_heads = most_launch_extents.grid[1];
constexpr int64_t most_head_dim = 256;
constexpr int64_t most_splits = 1024;
constexpr int64_t most_ctas = most_launch_extents.grid[0];
// Within a block of keys a kernel counts elements of bias in 32 bits.
constexpr int64_t most_bias_stride = int64_t{1} << 23;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct Work {
  int64_t rows;             // packed query rows of a kv head
  int64_t heads;            // batch x kv heads
  int64_t most_keys;        // that a row sees
  int64_t keys;             // that an average row sees
  int64_t ragged_rows = 0;  // ragged: of all sequences together, for one kv head
  int64_t batch = 1;
  double dram_bytes = 0;

  Work(const fms_attention_problem& p, const PlannerFigures& gpu)
      : rows(group_size(p) * p.q_len),
        heads(p.batch * p.kv_heads),
        most_keys(p.kv_len),
        keys(static_cast<int64_t>(visible_keys_per_row(p))),
        batch(p.batch) {
    if (has(p, FMS_RAGGED_Q)) ragged_rows = group_size(p) * p.total_q;
    if (p.window_left >= 0 && p.window_right >= 0) most_keys = std::min(most_keys, p.window_left + p.window_right + 1);
    // What was computed just now is still in L2; caches of keys and values are not.
    const double bytes =
        4.0 * static_cast<double>(heads) * static_cast<double>(rows + p.kv_len) * static_cast<double>(p.head_dim);
    if (bytes > gpu.l2_resident_bytes) dram_bytes = bytes;
  }

  // Tiles of so many rows that have rows at all: of ragged batches the grid holds more.
  [[nodiscard]] int64_t tiles(int32_t q_tile) const {
    const int64_t all = heads * divide_up(rows, q_tile);
    return ragged_rows == 0 ? all : std::min(all, heads / batch * (ragged_rows / q_tile + batch));
  }
};

// The time of one kernel, in clocks of an SM.
class Estimate {
 public:
  Estimate(const CudaKernel& kernel, const Work& work, const PlannerFigures& gpu)
      : gpu_(gpu), policy_(*gpu.policy), kernel_(kernel), work_(work), tiles_(work.tiles(kernel.q_tile)) {
    const int warps = kernel.threads / 32, row_warps = kernel.q_tile / 16;
    const int key_tiles = kernel.kv_tile / 8, dim_steps = kernel.head_dim / 16;
    const double products = 2.0 * row_warps * key_tiles * dim_steps;
    const double bytes = 4.0 * kernel.kv_tile * kernel.head_dim;
    const double clocks = gpu.product_clocks / policy_.loop_share[std::bit_width(static_cast<unsigned>(row_warps)) - 1];
    key_warps_ = std::max(warps / row_warps, 1);
    block_alone_ = products / std::min(warps, gpu.pipes_per_sm) * clocks / policy_.alone_share + policy_.block_clocks;
    block_busy_ = std::max(products / gpu.pipes_per_sm * clocks, bytes / policy_.l2_bytes_per_clock);
  }

  [[nodiscard]] int64_t tiles() const { return tiles_; }
  // As few splits as have shares of no more blocks.
  [[nodiscard]] int64_t without_waste(int64_t splits) const {
    const int64_t blocks = std::max<int64_t>(divide_up(work_.most_keys, kernel_.kv_tile), 1);
    return divide_up(blocks, divide_up(blocks, splits));
  }

  // Until the last CTA is done.
  [[nodiscard]] double clocks(int64_t splits) const {
    const int64_t ctas = tiles_ * splits, slots = int64_t{gpu_.sm_count} * kernel_.ctas_per_sm;
    const auto blocks = static_cast<double>(divide_up(work_.keys, kernel_.kv_tile * splits));
    const auto most_blocks = static_cast<double>(divide_up(work_.most_keys, kernel_.kv_tile * splits));
    const auto waves = static_cast<double>(divide_up(ctas, slots));
    // A CTA that has its SM to itself; what an SM has to do in all; what DRAM has to bring.
    const double alone = (most_blocks + (waves - 1) * blocks) * block_alone_;
    double cta = blocks * block_busy_, merging = 0;
    if (splits > 1) {
      cta += 2 * static_cast<double>(kernel_.split_bytes) / policy_.l2_bytes_per_clock;
      merging = policy_.split_clocks + policy_.state_clocks * static_cast<double>(splits) / key_warps_;
    }
    const double busy = static_cast<double>(divide_up(ctas, gpu_.sm_count)) * cta;
    const double asking = waves == 1 ? std::min(static_cast<double>(ctas), static_cast<double>(gpu_.sm_count))
                                     : static_cast<double>(ctas) / (waves * kernel_.ctas_per_sm);
    const double dram = work_.dram_bytes / (gpu_.dram_bytes_per_clock * asking);
    return policy_.fixed_clocks + waves * policy_.cta_clocks + std::max({alone, busy, dram}) +
           policy_.hidden_share * busy + merging;
  }

 private:
  const PlannerFigures& gpu_;
  const TuningPolicy& policy_;
  const CudaKernel& kernel_;
  const Work& work_;
  int64_t tiles_;
  int key_warps_;
  double block_alone_, block_busy_;
};

fms_status check_limits(const fms_attention_problem& p, const Work& work, fms_error* error) {
  if (p.dtype == FMS_F32) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.dtype", "problem.dtype is fp32; allowed on a GPU: fp16, bf16");
  }
  if (p.value_dim != p.head_dim) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.value_dim",
                "problem.value_dim is %lld; allowed on a GPU: problem.head_dim, which is %lld",
                static_cast<long long>(p.value_dim), static_cast<long long>(p.head_dim));
  }
  if (p.head_dim > most_head_dim) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.head_dim", "problem.head_dim is %lld; allowed on a GPU: 1 to %lld",
                static_cast<long long>(p.head_dim), static_cast<long long>(most_head_dim));
  }
  if (work.rows > most_rows_or_keys || p.kv_len > most_rows_or_keys || work.heads > most_heads) {
    return fail(
        error, FMS_NOT_SUPPORTED, "problem",
        "the problem has %lld query rows a kv head, %lld keys and %lld kv heads in all; allowed on a GPU: %lld, "
        "%lld and %lld",
        static_cast<long long>(work.rows), static_cast<long long>(p.kv_len), static_cast<long long>(work.heads),
        static_cast<long long>(most_rows_or_keys), static_cast<long long>(most_rows_or_keys),
        static_cast<long long>(most_heads));
  }
  if (has(p, FMS_BIAS2)) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.features",
                "problem.features has FMS_BIAS2; allowed on a GPU: one term, FMS_BIAS");
  }
  if (has(p, FMS_BIAS) && bias_group(p.bias) > 1) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.bias.group", "problem.bias.group is %lld; allowed on a GPU: 1",
                static_cast<long long>(p.bias.group));
  }
  if (has(p, FMS_BIAS) && p.bias.kv > most_bias_stride) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.bias.kv", "problem.bias.kv is %lld; allowed on a GPU: up to %lld",
                static_cast<long long>(p.bias.kv), static_cast<long long>(most_bias_stride));
  }
  return FMS_OK;
}

struct Choice {
  const CudaKernel* kernel = nullptr;
  int64_t splits = 1;
  double clocks = 0;
};

void consider(const CudaKernel& kernel, const Work& work, int32_t forced_splits, const PlannerFigures& gpu,
              Choice& best) {
  const Estimate estimate(kernel, work, gpu);
  const auto offer = [&](int64_t splits) {
    const double clocks = estimate.clocks(splits);
    if (best.kernel != nullptr) {
      const bool is_equal = clocks == best.clocks;
      if (is_equal ? kernel.q_tile >= best.kernel->q_tile : clocks > best.clocks) return;
    }
    best = {&kernel, splits, clocks};
  };
  if (forced_splits > 0) return offer(forced_splits);
  offer(1);
  const int64_t tiles = estimate.tiles();
  if (tiles >= int64_t{gpu.policy->tiles_without_tail} * gpu.sm_count) return;
  int64_t last = 1;
  const auto offer_splits = [&](int64_t splits) {
    splits = estimate.without_waste(std::clamp<int64_t>(splits, 1, most_splits));
    if (splits > 1 && splits != last) offer(splits);
    last = splits;
  };
  constexpr int64_t few_splits = 4, most_waves = 4;
  for (int64_t splits = 2; splits <= few_splits; ++splits) offer_splits(splits);
  for (int64_t held = 1; held <= kernel.ctas_per_sm; ++held) offer_splits(gpu.sm_count * held / tiles);
  for (int64_t waves = 2; waves <= most_waves; ++waves) offer_splits(waves * gpu.sm_count * kernel.ctas_per_sm / tiles);
}

}  // namespace

fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                     fms_error* error) {
  const fms_attention_problem& p = plan.problem;
  const Work work(p, caps.gpu);
  if (auto s = check_limits(p, work, error)) return s;  // before anything is loaded for it
  CudaKernel found[CudaKernels::max_found];
  int count = 0;
  if (auto s = caps.cuda_kernels->find(p, found, &count, error)) return s;
  Choice best;
  for (int i = 0; i < count; ++i) {
    const CudaKernel& kernel = found[i];
    if (kernel.ctas_per_sm == 0 || (options.q_tile > 0 && kernel.q_tile != options.q_tile)) continue;
    consider(kernel, work, options.kv_splits, caps.gpu, best);
  }
  if (best.kernel == nullptr) {
    return fail(
        error, FMS_NOT_SUPPORTED, options.q_tile > 0 ? "options.q_tile" : "problem.head_dim",
        "no kernel of this library runs head_dim %lld%s on this GPU; allowed: head_dim 1 to 256, q_tile 16, 32, "
        "64 or 128 as far as the head size has them",
        static_cast<long long>(p.head_dim), options.q_tile > 0 ? " with this q_tile" : "");
  }
  return finish_cuda_plan(*best.kernel, best.splits, caps.gpu.sm_count, plan, error);
}

fms_status finish_cuda_plan(const CudaKernel& kernel, int64_t splits, int32_t sm_count, fms_attention_plan& plan,
                            fms_error* error) {
  const Work work(plan.problem, {});  // of a GPU that nothing is known of: only rows and heads are asked for
  if (auto s = check_limits(plan.problem, work, error)) return s;
  const int64_t tiles = work.heads * divide_up(work.rows, kernel.q_tile);
  const int64_t ctas = tiles * splits;
  if (ctas > most_ctas) {
    return fail(error, FMS_NOT_SUPPORTED, "problem",
                "the plan would have %lld CTAs; allowed: %lld. Force fewer kv_splits", static_cast<long long>(ctas),
                static_cast<long long>(most_ctas));
  }
  plan.family = FMS_KERNEL_CUDA_FORWARD;
  plan.instance = kernel.instance;
  plan.kernel_head_dim = kernel.head_dim;
  plan.sm_count = sm_count;
  plan.ctas_per_sm = kernel.ctas_per_sm;
  plan.threads = kernel.threads;
  plan.q_tile = kernel.q_tile;
  plan.kv_tile = kernel.kv_tile;
  plan.kv_splits = static_cast<int32_t>(splits);
  plan.work_items = ctas;
  plan.workspace_bytes = cuda_workspace_bytes(tiles, splits, kernel.split_bytes);
  return FMS_OK;
}

}  // namespace flashmoe::plan
