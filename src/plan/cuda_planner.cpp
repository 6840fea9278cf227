// Plans for a GPU: which kernel, and over how many CTAs the keys are split.
#include <algorithm>

#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

// The smallest kernel that holds the head, or nothing.
const CudaInstance* find_instance(std::span<const CudaInstance> instances, const fms_attention_problem& p) {
  const bool is_modified = has(p, FMS_BIAS) || p.softcap > 0.0F;
  const CudaInstance* found = nullptr;
  for (const CudaInstance& one : instances) {
    if (one.dtype != p.dtype || one.head_dim < p.head_dim || (one.is_paged != 0) != has(p, FMS_PAGED_KV) ||
        (one.is_modified != 0) != is_modified) {
      continue;
    }
    if (found == nullptr || one.head_dim < found->head_dim) found = &one;
  }
  return found;
}

// Enough CTAs that every SM has two, as far as the keys go: a split has at least two blocks of them.
int32_t choose_splits(const DeviceCaps& caps, const fms_attention_plan& plan, int64_t ctas) {
  const int64_t wanted = (2 * int64_t{caps.sm_count} + ctas - 1) / ctas;
  const int64_t blocks = (plan.problem.kv_len + plan.kv_tile - 1) / plan.kv_tile;
  return static_cast<int32_t>(std::clamp<int64_t>(std::min(wanted, blocks / 2), 1, 1024));
}

}  // namespace

fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                     fms_error* error) {
  const fms_attention_problem& p = plan.problem;
  if (p.dtype == FMS_F32) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.dtype", "problem.dtype is fp32; allowed on a GPU: fp16, bf16");
  }
  constexpr int64_t most = int64_t{1} << 30;
  const int64_t rows = group_size(p) * p.q_len;
  if (rows > most || p.kv_len > most || p.batch * p.kv_heads > 65535) {
    return fail(error, FMS_NOT_SUPPORTED, "problem",
                "the problem has %lld packed query rows, %lld keys and %lld kv heads in all; allowed on a GPU: %lld, "
                "%lld and 65535",
                static_cast<long long>(rows), static_cast<long long>(p.kv_len),
                static_cast<long long>(p.batch * p.kv_heads), static_cast<long long>(most),
                static_cast<long long>(most));
  }
  const CudaInstance* const instance = find_instance(caps.cuda_instances, p);
  if (instance == nullptr) {
    return fail(error, FMS_NOT_SUPPORTED, "problem.head_dim",
                "problem.head_dim is %lld, for which this build has no CUDA kernel; allowed: 1 to 128",
                static_cast<long long>(p.head_dim));
  }
  plan.family = FMS_KERNEL_CUDA_FORWARD;
  plan.instance = static_cast<int32_t>(instance - caps.cuda_instances.data());
  plan.sm_count = caps.sm_count;
  plan.threads = instance->threads;
  plan.q_tile = instance->q_tile;
  plan.kv_tile = instance->kv_tile;
  const int64_t tiles = p.batch * p.kv_heads * ((rows + plan.q_tile - 1) / plan.q_tile);
  plan.kv_splits = options.kv_splits > 0 ? options.kv_splits : choose_splits(caps, plan, tiles);
  plan.work_items = tiles * plan.kv_splits;
  if (plan.kv_splits > 1) {
    const auto states = static_cast<uint64_t>(plan.work_items * plan.q_tile * cuda_state_floats(instance->head_dim));
    plan.workspace_bytes = states * sizeof(float) + static_cast<uint64_t>(tiles) * sizeof(uint32_t);
  }
  return FMS_OK;
}

}  // namespace flashmoe::plan
