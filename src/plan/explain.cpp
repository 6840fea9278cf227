// A plan as text for people.
#include <algorithm>
#include <cinttypes>

#include "plan/cpu_layout.hpp"
#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "plan/text.hpp"
#include "plan/tuning/cpu.hpp"
#include "plan/words.hpp"

namespace flashmoe::plan {

namespace {

// Why there are this many CTAs, and neither fewer nor more.
void explain_splits(const fms_attention_plan& plan, int64_t tiles, Text& text) {
  const fms_attention_problem& p = plan.problem;
  const int64_t sms = plan.sm_count, used = std::min(plan.work_items, sms);
  const int64_t steps = std::max<int64_t>((p.kv_len + plan.kv_tile - 1) / plan.kv_tile, 1);
  const double tile_waves = static_cast<double>(tiles) / static_cast<double>(sms * plan.ctas_per_sm);
  if (plan.kv_splits > 1) {
    if (plan.kv_splits > steps) {
      text.add("Splits this fine are forced: the keys are only %" PRId64
               " step%s of %d, so each share is a part of one",
               steps, steps == 1 ? "" : "s", plan.kv_tile);
    } else if (tiles < sms) {
      text.add("The tiles alone would occupy %" PRId64 " SM%s; split, the same work occupies %" PRId64, tiles,
               tiles == 1 ? "" : "s", used);
      if (used < sms)
        text.add(", and more splits would cost more than the steps they save or leave a last wave of few");
    } else {
      text.add("The tiles alone are ");
      text.add_fixed(tile_waves, 2);
      text.add(" waves and would leave SMs idle in the last; finer shares end together");
    }
    text.add(". The last CTA of a tile merges the splits in a fixed order, in the same launch");
  } else if (tiles >= sms) {
    text.add("The tiles alone give every SM work, so splits would only add states to store and merge");
  } else {
    text.add(
        "%" PRId64 " SMs stay idle: a tile's keys are %" PRId64
        " step%s, and storing, fetching and merging the states of splits would take longer than the steps they save",
        sms - used, steps, steps == 1 ? "" : "s");
  }
  text.add(". ");
}

// One paragraph: tile, CTAs, waves, splits, and why.
void explain_cuda(const fms_attention_plan& plan, Text& text) {
  const fms_attention_problem& p = plan.problem;
  const bool is_listed = plan.kv_splits == 0;
  const int64_t tiles = plan.work_items / std::max(plan.kv_splits, 1);
  text.add("Tensor cores, the kernel for head size %d: a CTA of %d threads takes a tile of %d query rows",
           plan.kernel_head_dim, plan.threads, plan.q_tile);
  if (group_size(p) > 1) text.add(" (%" PRId64 " heads of a group side by side)", group_size(p));
  text.add(" and walks over its keys %d a step. ", plan.kv_tile);
  if (!is_listed) text.add("%" PRId64 " tile%s, ", tiles, tiles == 1 ? "" : "s");
  if (is_listed) {
    text.add("Lengths are the device's to read: up to %" PRId64 " CTA%s", plan.work_items,
             plan.work_items == 1 ? "" : "s");
  } else if (plan.kv_splits > 1) {
    text.add("keys split %d ways: %" PRId64 " CTAs", plan.kv_splits, plan.work_items);
  } else {
    text.add("keys not split: %" PRId64 " CTA%s", plan.work_items, plan.work_items == 1 ? "" : "s");
  }
  text.add(" on %d SMs that hold %d each, ", plan.sm_count, plan.ctas_per_sm);
  text.add_fixed(static_cast<double>(plan.work_items) / (static_cast<double>(plan.sm_count) * plan.ctas_per_sm), 2);
  text.add(" waves. ");
  if (is_listed) {
    text.add(
        "Each CTA finds its sequence, rows and keys in the lengths, long sequences are split by themselves, and the "
        "longest shares begin first: one plan serves any lengths. The last CTA of a tile merges its splits in a fixed "
        "order, in the same launch. ");
  } else {
    explain_splits(plan, tiles, text);
  }
  text.add("Workspace: %" PRIu64
           " bytes; no score matrix is ever stored.\nTuning: the GPU's own clocks, caches and "
           "rates, and its architecture's policy (src/devices/tuning.cpp); not measured.\n",
           plan.workspace_bytes);
}

void explain_family(const fms_attention_plan& plan, int64_t rows, Text& text) {
  const fms_attention_problem& p = plan.problem;
  switch (plan.family) {
    case FMS_KERNEL_EMPTY:
      text.add("Nothing to compute: batch or q_len is 0.\n");
      break;
    case FMS_KERNEL_GEMV:
      text.add("Kernel: %s gemv, because only %" PRId64 " query row%s share%s a kv head: K and V are read once%s.\n",
               cpu_isa_names[plan.cpu_isa], rows, rows == 1 ? "" : "s", rows == 1 ? "s" : "",
               plan.cpu_isa == FMS_ISA_AMX ? ", by tiles that take all the rows" : " as vectors, and tiles would idle");
      break;
    case FMS_KERNEL_AMX:
      text.add("Kernel: amx tiles, %s.\n",
               p.dtype == FMS_F16
                   ? "fp16 as the exact sum of two bf16 parts, 3 products instead of 1, or 4 where the scores are large"
               : p.dtype == FMS_F32 ? "fp32 as the exact sum of three bf16 parts, 6 products instead of 1"
                                    : "bf16 as it is");
      break;
    case FMS_KERNEL_CUDA_FORWARD:
      explain_cuda(plan, text);
      break;
    case FMS_KERNEL_TILE:
      text.add("Kernel: %s tiles with fp32 FMA%s.\n", cpu_isa_names[plan.cpu_isa],
               p.dtype == FMS_F32 ? "" : "; K and V are widened to fp32 once per block");
      break;
  }
}

void explain_pack(const fms_attention_plan& plan, Text& text) {
  switch (plan.pack) {
    case FMS_PACK_NONE:
      break;
    case FMS_PACK_HEAD:
      text.add("Packing: each thread packs the kv head it works on once, and keeps it in its own cache.\n");
      break;
    case FMS_PACK_BLOCK:
      text.add("Packing: block by block for every query tile, because %s.\n",
               plan.q_tile >= group_size(plan.problem) * plan.problem.q_len
                   ? "a kv head has only one"
                   : "whole kv heads would take too much memory");
      break;
  }
}

}  // namespace

std::size_t explain(const fms_attention_plan& plan, char* buffer, std::size_t capacity) {
  const fms_attention_problem& p = plan.problem;
  const int64_t rows = group_size(p) * p.q_len;
  const bool is_cuda = plan.device_kind == FMS_DEVICE_CUDA;
  Text text(buffer, capacity);
  text.add("Attention %s, batch %" PRId64 ", heads %" PRId64 "/%" PRId64 ", q_len %" PRId64 ", kv_len %" PRId64
           ", head_dim %" PRId64,
           dtype_names[p.dtype], p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim);
  if (p.value_dim != p.head_dim) text.add(" (values: %" PRId64 ")", p.value_dim);
  text.add("%s on %s.\n", p.window_right == 0 ? ", causal" : "", is_cuda ? "a GPU" : "the CPU");
  explain_family(plan, rows, text);
  if (plan.family == FMS_KERNEL_EMPTY) return text.length();
  if (is_cuda) return text.length();
  text.add("Work: %" PRId64 " items of up to %d query rows x %d keys a step on %d thread%s%s.\n", plan.work_items,
           plan.q_tile, plan.kv_tile, plan.threads, plan.threads == 1 ? "" : "s",
           plan.threads == 1 ? "" : ", divided by cost");
  if (plan.kv_splits > 1) {
    text.add(
        "Keys are split %d ways and combined in a fixed order: query tiles alone would leave threads idle (or it was "
        "forced).\n",
        plan.kv_splits);
  }
  explain_pack(plan, text);
  text.add("Workspace: %" PRIu64 " bytes, %" PRIu64 " of them per thread; no score matrix is ever stored.\n",
           plan.workspace_bytes, plan.thread_bytes);
  if (plan.family != FMS_KERNEL_GEMV) text.add("Tuning: %s.\n", cpu_tile_policy(plan.cpu_isa).chosen_by);
  return text.length();
}

}  // namespace flashmoe::plan
