// Plans for a GPU: which kernel, and over how many CTAs the keys are split. Every kernel that fits is tried with the
// splits that fill the machine once, twice, ...; the least estimated time wins.
#include <algorithm>
#include <cmath>

#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "plan/tuning/cuda.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

constexpr int64_t most_rows_or_keys = int64_t{1} << 30;
constexpr int64_t most_heads = 65535;  // of a grid's y
constexpr int64_t most_splits = 1024;

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

struct Work {
  int64_t rows;   // packed query rows of a kv head
  int64_t heads;  // batch x kv heads
  double keys;    // that an average row sees
};

// Clocks until the last CTA is done.
double estimate(const CudaKernel& kernel, const Work& work, int64_t splits, int32_t sm_count) {
  const CudaPolicy& policy = cuda_policy;
  const auto tiles = static_cast<double>(work.heads * divide_up(work.rows, kernel.q_tile));
  const double ctas = tiles * static_cast<double>(splits);
  const double blocks = std::ceil(work.keys / static_cast<double>(splits) / kernel.kv_tile);
  const double products = kernel.q_tile / 16.0 * kernel.kv_tile / 8.0 * kernel.head_dim / 16.0 * 2;
  const double warps = kernel.threads / 32.0;
  const double block_bytes = 4.0 * kernel.kv_tile * kernel.head_dim;
  // A CTA that has its SM to itself, and what an SM has to do in all.
  const double alone =
      blocks * (products / std::min(warps, policy.pipes_per_sm) * policy.product_clocks / policy.alone_share +
                policy.block_clocks);
  const double waves = std::ceil(ctas / (static_cast<double>(sm_count) * kernel.ctas_per_sm));
  const double ctas_of_an_sm = std::ceil(ctas / sm_count);
  const double busy =
      ctas_of_an_sm * blocks *
      std::max(products / policy.pipes_per_sm * policy.product_clocks, block_bytes / policy.l2_bytes_per_clock);
  const double merging =
      splits == 1 ? 0.0 : policy.split_clocks + policy.state_clocks * static_cast<double>(splits) / warps;
  return waves * policy.fixed_clocks + std::max(waves * alone, busy) + merging;
}

}  // namespace

fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                     fms_error* error) {
  const fms_attention_problem& p = plan.problem;
  if (p.dtype == FMS_F32) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.dtype", "problem.dtype is fp32; allowed on a GPU: fp16, bf16");
  }
  const Work work{group_size(p) * p.q_len, p.batch * p.kv_heads, visible_keys_per_row(p)};
  if (work.rows > most_rows_or_keys || p.kv_len > most_rows_or_keys || work.heads > most_heads) {
    return fail(
        error, FMS_NOT_SUPPORTED, "problem",
        "the problem has %lld query rows a kv head, %lld keys and %lld kv heads in all; allowed on a GPU: %lld, "
        "%lld and %lld",
        static_cast<long long>(work.rows), static_cast<long long>(p.kv_len), static_cast<long long>(work.heads),
        static_cast<long long>(most_rows_or_keys), static_cast<long long>(most_rows_or_keys),
        static_cast<long long>(most_heads));
  }
  CudaKernel found[CudaKernels::max_found];
  int count = 0;
  if (auto s = caps.cuda_kernels->find(p, found, &count, error)) return s;
  const CudaKernel* best = nullptr;
  int64_t best_splits = 1;
  double best_clocks = 0;
  const auto consider = [&](const CudaKernel& kernel, int64_t splits) {
    const double clocks = estimate(kernel, work, splits, caps.sm_count);
    if (best != nullptr && clocks >= best_clocks) return;
    best = &kernel;
    best_splits = splits;
    best_clocks = clocks;
  };
  for (int i = 0; i < count; ++i) {
    const CudaKernel& kernel = found[i];
    if (kernel.ctas_per_sm == 0 || (options.q_tile > 0 && kernel.q_tile != options.q_tile)) continue;
    if (options.kv_splits > 0) {
      consider(kernel, options.kv_splits);
      continue;
    }
    consider(kernel, 1);
    const int64_t tiles = work.heads * divide_up(work.rows, kernel.q_tile);
    const int64_t most = std::min(most_splits, p.kv_len / cuda_policy.least_split_keys);
    for (int held = 1; held <= kernel.ctas_per_sm; ++held) {
      const int64_t splits = std::min(int64_t{caps.sm_count} * held / tiles, most);
      if (splits > 1) consider(kernel, splits);
    }
  }
  if (best == nullptr) {
    return fail(
        error, FMS_NOT_SUPPORTED, options.q_tile > 0 ? "options.q_tile" : "problem.head_dim",
        "no kernel of this library runs head_dim %lld%s on this GPU; allowed: head_dim 1 to 256, q_tile 16, 32, "
        "64 or 128 as far as the head size has them",
        static_cast<long long>(p.head_dim), options.q_tile > 0 ? " with this q_tile" : "");
  }
  plan.family = FMS_KERNEL_CUDA_FORWARD;
  plan.instance = best->instance;
  plan.kernel_head_dim = best->head_dim;
  plan.sm_count = caps.sm_count;
  plan.ctas_per_sm = best->ctas_per_sm;
  plan.threads = best->threads;
  plan.q_tile = best->q_tile;
  plan.kv_tile = best->kv_tile;
  plan.kv_splits = static_cast<int32_t>(best_splits);
  const int64_t tiles = work.heads * divide_up(work.rows, best->q_tile);
  plan.work_items = tiles * best_splits;
  if (best_splits > 1) {
    plan.workspace_bytes =
        static_cast<uint64_t>(plan.work_items * best->split_bytes) + static_cast<uint64_t>(tiles) * sizeof(uint32_t);
  }
  return FMS_OK;
}

}  // namespace flashmoe::plan
