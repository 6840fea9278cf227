// Plans for a GPU: which kernel, and over how many CTAs the keys are split. The smallest tile without splits is the
// plan that nobody would question; a larger tile and then a split have to gain clearly to be taken instead.
#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>

#include "plan/cuda_cost.hpp"
#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

// Kernels count rows and keys in 32 bits, and add windows of up to 2^30 to them.
constexpr int64_t most_rows_or_keys = (int64_t{1} << 30) - 1;
constexpr int64_t most_head_dim = 256;
constexpr int64_t most_ctas = most_launch_extents.grid[0];
// Within a block of keys a kernel counts elements of bias in 32 bits.
constexpr int64_t most_bias_stride = int64_t{1} << 23;

fms_status check_limits(const fms_attention_problem& p, const CudaWork& work, fms_error* error) {
  constexpr uint32_t cpu_only = FMS_MASK | FMS_KV_STARTS | FMS_Q_LENGTHS | FMS_TOP_LEFT | FMS_KV_SCALES | FMS_PARTIAL;
  if ((p.features & cpu_only) != 0) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.features",
                "problem.features has bits 0x%x, which run on the CPU only; allowed on a GPU: those without them",
                p.features & cpu_only);
  }
  if (p.dtype == FMS_F32) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.dtype", "problem.dtype is fp32; allowed on a GPU: fp16, bf16");
  }
  const struct {
    const char* name;
    int64_t size;
  } sizes[] = {{"problem.head_dim", p.head_dim}, {"problem.value_dim", p.value_dim}};
  for (const auto& [name, size] : sizes) {
    if (size <= most_head_dim) continue;
    return fail(error, FMS_NOT_SUPPORTED, name, "%s is %lld; allowed on a GPU: 1 to %lld", name,
                static_cast<long long>(size), static_cast<long long>(most_head_dim));
  }
  if (work.rows > most_rows_or_keys || p.kv_len > most_rows_or_keys) {
    return fail(error, FMS_NOT_SUPPORTED, "problem",
                "the problem has %lld query rows a kv head and %lld keys; allowed on a GPU: %lld of each",
                static_cast<long long>(work.rows), static_cast<long long>(p.kv_len),
                static_cast<long long>(most_rows_or_keys));
  }
  const struct {
    const char* name;
    int64_t stride;
  } biases[] = {{"problem.bias.kv", has(p, FMS_BIAS) ? p.bias.kv : 0},
                {"problem.bias2.kv", has(p, FMS_BIAS2) ? p.bias2.kv : 0}};
  for (const auto& [name, stride] : biases) {
    if (stride <= most_bias_stride) continue;
    return fail(error, FMS_NOT_SUPPORTED, name, "%s is %lld; allowed on a GPU: up to %lld", name,
                static_cast<long long>(stride), static_cast<long long>(most_bias_stride));
  }
  return FMS_OK;
}

// Splits that are tried: the same for all problems, and so close together that none in between would gain much.
constexpr auto tried_splits = [] {
  std::array<int32_t, 40> all{};
  int32_t splits = 2;
  for (int32_t& one : all) {
    one = splits;
    splits = std::min(std::max(splits + 1, splits * 9 / 8), most_kv_splits);
  }
  return all;
}();

// Fewer splits, if they cost hardly more and leave a fuller last wave: the estimate is too smooth to see the end of it.
void fill_waves(const CudaWork& work, const PlannerFigures& gpu, double most_cost, CudaChoice& best) {
  const CudaCost cost(*best.kernel, work, gpu);
  const auto filled = [&](int64_t splits) {
    const int64_t ctas = cost.tiles() * splits, waves = divide_up(ctas, gpu.sm_count);
    return static_cast<double>(ctas) / static_cast<double>(waves * gpu.sm_count);
  };
  double most_filled = filled(best.splits);
  for (int64_t splits = best.splits - 1; splits > std::max<int64_t>(best.splits * 3 / 4, 1); --splits) {
    if (cost.cost(splits) > most_cost) break;
    if (filled(splits) <= most_filled) continue;
    most_filled = filled(splits);
    best = {best.kernel, splits, cost.clocks(splits), cost.cost(splits)};
  }
}

}  // namespace

CudaChoice choose_cuda(std::span<const CudaKernel> kernels, const CudaWork& work, const fms_plan_options& options,
                       const PlannerFigures& gpu) {
  const CudaKernel* by_tile[CudaKernels::max_found];
  std::size_t count = 0;
  for (const CudaKernel& kernel : kernels) {
    if (kernel.ctas_per_sm == 0 || (options.q_tile > 0 && kernel.q_tile != options.q_tile)) continue;
    std::size_t at = count++;
    for (; at > 0 && by_tile[at - 1]->q_tile > kernel.q_tile; --at) by_tile[at] = by_tile[at - 1];
    by_tile[at] = &kernel;
  }
  // The smallest there is has to do for the fewest rows.
  while (count > 1 && by_tile[count - 1]->q_tile > 2 * work.rows) --count;
  CudaChoice best;
  double least_cost = std::numeric_limits<double>::infinity();
  const auto offer = [&](const CudaKernel& kernel, const CudaCost& of_kernel, int64_t splits) {
    const double cost = of_kernel.cost(splits);
    least_cost = std::min(least_cost, cost);
    if (best.kernel != nullptr && cost * (1 + gpu.policy->least_gain) >= best.cost) return;
    best = {&kernel, splits, of_kernel.clocks(splits), cost};
  };
  const bool is_forced = options.kv_splits > 0;
  for (std::size_t i = 0; i < count; ++i) {
    offer(*by_tile[i], CudaCost(*by_tile[i], work, gpu), is_forced ? options.kv_splits : 1);
  }
  for (std::size_t i = 0; i < count && !is_forced; ++i) {
    const CudaCost cost(*by_tile[i], work, gpu);
    if (cost.tiles() >= int64_t{gpu.policy->tiles_without_tail} * gpu.sm_count) continue;
    const int64_t most = divide_up(work.most_keys, by_tile[i]->kv_tile);
    for (const int32_t splits : tried_splits) {
      if (splits > most) break;
      offer(*by_tile[i], cost, splits);
    }
  }
  // Still within the least gain of the best there is, so that more work does not seem to take less time.
  if (best.splits > 1 && !is_forced) fill_waves(work, gpu, least_cost * (1 + 0.8 * gpu.policy->least_gain), best);
  return best;
}

bool takes_list(const fms_attention_problem& p) {
  if (!has(p, FMS_RAGGED_Q) && !has(p, FMS_RAGGED_KV) && !has(p, FMS_KV_LENGTHS)) return false;
  // A CTA looks at all lengths a few times over, and counts items in 32 bits.
  constexpr int64_t most_sequences = 512, most_tiles = int64_t{1} << 20, smallest_tile = 16;
  return p.batch <= most_sequences && CudaWork(p).tiles(smallest_tile) / p.kv_heads <= most_tiles;
}

WorkListSize work_list_size(const fms_attention_problem& p, int32_t q_tile, int32_t kv_tile, int32_t sm_count) {
  // An SM wants some eight items, so that the last ones to end leave others idle for a fraction of the time: what tiles
  // do not give comes from splits. Where tiles are many there are still long ones among them; and never so many splits
  // that each would be a block or two.
  constexpr int64_t items_per_sm = 8, most_splits_per_sm = 4, least_blocks = 2;
  const int64_t tiles = CudaWork(p).tiles(q_tile) / p.kv_heads, sms = sm_count;
  const int64_t wanted = std::clamp(items_per_sm * sms - tiles * p.kv_heads, sms, most_splits_per_sm * sms);
  const int64_t most = tiles * std::max<int64_t>(divide_up(p.kv_len, int64_t{kv_tile} * least_blocks) - 1, 0);
  const int64_t spare = std::min(divide_up(wanted, p.kv_heads), most);
  return {tiles + spare, 2 * spare};
}

bool is_longest_first(const fms_attention_plan& plan, double l2_resident_bytes) {
  const fms_attention_problem& p = plan.problem;
  const int64_t heads = p.batch * p.kv_heads, tiles = plan.work_items / plan.kv_splits / heads;
  // Heads or tiles are on an axis that takes fewer than x does. Both are never too many.
  if (heads > most_launch_extents.grid[1]) return true;
  if (tiles == 1 || tiles > most_launch_extents.grid[2]) return false;
  const double kv_bytes =
      2.0 * static_cast<double>(heads) * static_cast<double>(p.kv_len) * static_cast<double>(p.head_dim + p.value_dim);
  // Queries and results pass through L2 as well; and where it has two halves, each keeps its own copy.
  constexpr double share = 0.75;
  return is_masked(p) && kv_bytes <= share * l2_resident_bytes;
}

SplitStates split_states(const fms_attention_plan& plan) {
  if (plan.kv_splits == 1) return {0, 0};
  if (plan.kv_splits > 1) return {plan.work_items, plan.work_items / plan.kv_splits};
  const int64_t slots =
      plan.problem.kv_heads * work_list_size(plan.problem, plan.q_tile, plan.kv_tile, plan.sm_count).slots;
  return {slots, slots};
}

fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                     fms_error* error) {
  const fms_attention_problem& p = plan.problem;
  const CudaWork work(p);
  if (auto s = check_limits(p, work, error)) return s;  // before anything is loaded for it
  CudaKernel found[CudaKernels::max_found];
  int count = 0;
  if (auto s = caps.cuda_kernels->find(p, found, &count, error)) return s;
  const auto is_possible = [&](const CudaKernel& kernel) {
    return kernel.takes_list && (options.q_tile == 0 || kernel.q_tile == options.q_tile);
  };
  const bool is_listed = options.kv_splits == 0 && takes_list(p) && std::any_of(found, found + count, is_possible);
  if (is_listed) {
    count = static_cast<int>(
        std::remove_if(found, found + count, [](const CudaKernel& kernel) { return !kernel.takes_list; }) - found);
  }
  const CudaChoice best = choose_cuda({found, static_cast<std::size_t>(count)}, work, options, caps.gpu);
  if (best.kernel == nullptr) {
    char tiles[64] = "none";
    int used = 0;
    for (int i = 0; i < count && used >= 0 && used < static_cast<int>(sizeof tiles); ++i) {
      used += std::snprintf(tiles + used, sizeof tiles - static_cast<std::size_t>(used), "%s%d", i == 0 ? "" : ", ",
                            static_cast<int>(found[i].q_tile));
    }
    return fail(error, FMS_NOT_SUPPORTED, options.q_tile > 0 ? "options.q_tile" : "problem.head_dim",
                "no kernel of this library runs head_dim %lld with value_dim %lld%s on this GPU; allowed: sizes 1 to "
                "256, and q_tile for these sizes: %s",
                static_cast<long long>(p.head_dim), static_cast<long long>(p.value_dim),
                options.q_tile > 0 ? " and this q_tile" : "", tiles);
  }
  return finish_cuda_plan(*best.kernel, is_listed ? 0 : best.splits, caps.gpu.sm_count, plan, error);
}

fms_status finish_cuda_plan(const CudaKernel& kernel, int64_t splits, int32_t sm_count, fms_attention_plan& plan,
                            fms_error* error) {
  const CudaWork work(plan.problem);
  if (auto s = check_limits(plan.problem, work, error)) return s;
  const int64_t ctas =
      splits == 0 ? plan.problem.kv_heads * work_list_size(plan.problem, kernel.q_tile, kernel.kv_tile, sm_count).items
                  : work.heads * divide_up(work.rows, kernel.q_tile) * splits;
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
  plan.workspace_bytes = cuda_workspace_bytes(split_states(plan), kernel.split_bytes);
  return FMS_OK;
}

}  // namespace flashmoe::plan
