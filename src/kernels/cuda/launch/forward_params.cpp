#include "kernels/cuda/launch/forward_params.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "plan/planner.hpp"
#include "plan/problem.hpp"

namespace flashmoe::cuda {
namespace {

using plan::has;

// Added to a key of at most 2^30 it does not overflow.
constexpr int unbounded = (1 << 30) - 1;

// Of weights above a top that stayed. They are as exact in fp16 and bf16 as those below 1, far from the largest fp16,
// and their sums from the largest fp32.
constexpr float most_log2_weight = 8.0F;

// Whether every row begins at a multiple of 16 bytes, so that it can be copied in chunks, and rows are not absurdly far
// apart: interior blocks count in 32 bits. A head size that is no multiple of 8 ends within a chunk that may not be
// read to its end.
bool is_aligned(const fms_attention_problem& p, const fms_attention_args& args) {
  if (p.head_dim % 8 != 0 || p.value_dim % 8 != 0) return false;
  for (const void* pointer : {args.q, args.k, args.v, static_cast<const void*>(args.o)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  }
  for (const fms_strides* strides : {&p.q, &p.k, &p.v, &p.o}) {
    if (strides->batch % 8 != 0 || strides->head % 8 != 0 || strides->seq % 8 != 0 || strides->seq > unbounded)
      return false;
  }
  return true;
}

// Whether four neighbouring keys' share of a bias can be read at once, whatever row and multiple of four they begin at.
bool is_of_fours(const void* values, const fms_bias_strides& strides, fms_dtype dtype) {
  const std::uintptr_t bytes = dtype == FMS_F32 ? 16 : 8;
  return strides.kv == 1 && strides.batch % 4 == 0 && strides.head % 4 == 0 && strides.q % 4 == 0 &&
         reinterpret_cast<std::uintptr_t>(values) % bytes == 0;
}

}  // namespace

Division division_by(int64_t divisor) {
  const auto by = static_cast<std::uint64_t>(std::max<int64_t>(divisor, 1));
  const auto shift = static_cast<unsigned>(std::bit_width(by - 1));  // ceil(log2)
  const std::uint64_t power = std::uint64_t{1} << (31 + shift);
  return {static_cast<unsigned int>((power + by - 1) / by), shift};
}

ExtendedParams forward_params(const fms_attention_plan& plan, const InstanceAxes& axes, const fms_attention_args& args,
                              std::byte* workspace, double l2_resident_bytes) {
  const fms_attention_problem& p = plan.problem;
  ExtendedParams to{};
  to.q = args.q;
  to.k = args.k;
  to.v = args.v;
  to.o = args.o;
  to.lse = has(p, FMS_LSE) ? args.lse : nullptr;
  to.bias = has(p, FMS_BIAS) ? args.bias : nullptr;
  to.sinks = has(p, FMS_SINKS) ? args.sinks : nullptr;
  to.q_begins = has(p, FMS_RAGGED_Q) ? args.cu_q : nullptr;
  to.kv_begins = has(p, FMS_RAGGED_KV) ? args.cu_kv : nullptr;
  to.kv_lengths = has(p, FMS_KV_LENGTHS) ? args.kv_lengths : nullptr;
  to.block_table = has(p, FMS_PAGED_KV) ? args.block_table : nullptr;
  to.q_strides = strides_of(p.q);
  to.k_strides = strides_of(p.k);
  to.v_strides = strides_of(p.v);
  to.o_strides = strides_of(p.o);
  to.lse_strides = strides_of(p.lse);
  to.k_row_bytes = static_cast<int>(p.k.seq * 2);
  to.v_row_bytes = static_cast<int>(p.v.seq * 2);
  to.bias_batch = p.bias.batch;
  to.bias_head = p.bias.head;
  to.bias_q = p.bias.q;
  to.bias_kv = static_cast<int>(p.bias.kv);
  to.by_bias_group = division_by(plan::bias_group(p.bias));
  to.bias2 = {has(p, FMS_BIAS2) ? args.bias2 : nullptr,
              p.bias2.batch,
              p.bias2.head,
              p.bias2.q,
              static_cast<int>(p.bias2.kv),
              static_cast<int>(p.bias2_dtype),
              division_by(plan::bias_group(p.bias2))};
  to.adds_fours = (to.bias == nullptr || is_of_fours(to.bias, p.bias, p.bias_dtype)) &&
                          (to.bias2.values == nullptr || is_of_fours(to.bias2.values, p.bias2, p.bias2_dtype))
                      ? 1
                      : 0;
  to.q_len = static_cast<int>(p.q_len);
  to.kv_len = static_cast<int>(p.kv_len);
  to.head_dim = static_cast<int>(p.head_dim);
  to.value_dim = static_cast<int>(p.value_dim);
  to.kv_heads = static_cast<int>(p.kv_heads);
  to.group = static_cast<int>(plan::group_size(p));
  to.window_left = p.window_left < 0 ? unbounded : static_cast<int>(std::min<int64_t>(p.window_left, unbounded));
  to.window_right = p.window_right < 0 ? unbounded : static_cast<int>(std::min<int64_t>(p.window_right, unbounded));
  to.splits = plan.kv_splits;
  to.batch = static_cast<int>(p.batch);
  if (plan.kv_splits == 0) {
    const plan::WorkListSize list = plan::work_list_size(p, plan.q_tile, plan.kv_tile, plan.sm_count);
    to.list_items = static_cast<int>(list.items);
    to.list_slots = static_cast<int>(list.slots);
  } else {
    to.tiles = static_cast<int>(plan.work_items / plan.kv_splits / (p.batch * p.kv_heads));
    if (plan::is_longest_first(plan, l2_resident_bytes)) {
      // Of many rounds the order within the first ones does not matter, and every CTA would pay for it.
      const int64_t rounds = (plan.work_items - 1) / plan.sm_count + 1, held = plan.ctas_per_sm;
      to.turns = rounds <= held + 1 ? static_cast<int>(std::min(rounds, held)) : 1;
    }
    to.sms = plan.sm_count;
    to.by_sms = division_by(plan.sm_count);
    to.by_heads = division_by(p.batch * p.kv_heads);
  }
  to.bias_kind = static_cast<int>(p.bias_dtype);
  to.page_size = static_cast<int>(std::min<int64_t>(p.page_size, unbounded));
  to.block_table_stride = static_cast<int>(p.block_table_stride);
  to.by_page_size = division_by(to.page_size);
  to.by_group = division_by(to.group);
  to.by_kv_heads = division_by(to.kv_heads);
  to.by_splits = division_by(plan.kv_splits);
  constexpr float log2_of_e = 1.44269504088896341F;
  to.scale = p.softmax_scale;
  to.softcap = p.softcap;
  to.inverse_softcap = p.softcap > 0.0F ? 1.0F / p.softcap : 0.0F;
  to.scale_log2 = axes.is_modified ? 1.0F : std::fabs(p.softmax_scale) * log2_of_e;
  to.most_growth = most_log2_weight / to.scale_log2;
  to.lowest = -3e38F / std::max(to.scale_log2, 1.0F);
  to.q_sign = !axes.is_modified && p.softmax_scale < 0 ? 0x80008000U : 0U;
  to.is_aligned = is_aligned(p, args) ? 1 : 0;
  const plan::SplitStates kept = plan::split_states(plan);
  if (kept.states > 0) {
    to.partial = reinterpret_cast<float*>(workspace);
    to.arrived = reinterpret_cast<unsigned int*>(to.partial + kept.states * axes.tile_state_floats());
  }
  return to;
}

LaunchGrid launch_grid(const ForwardParams& params) {
  const auto number = [](int64_t count) { return static_cast<unsigned int>(count); };
  const unsigned int heads = number(int64_t{params.batch} * params.kv_heads);
  if (params.splits == 0) return {number(int64_t{params.list_items} * params.kv_heads), 1, 1};
  if (params.turns != 0) return {heads, number(params.splits), number(params.tiles)};
  return {number(params.tiles), heads, number(params.splits)};
}

}  // namespace flashmoe::cuda
