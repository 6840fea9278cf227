// What each ISA's translation unit exports: the kernels of its policy behind the registry's signatures.
#pragma once

#include <optional>

#include "kernels/cpu/attention/gemv.hpp"
#include "kernels/cpu/attention/tile.hpp"
#include "kernels/cpu/attention/widened_keys.hpp"
#include "kernels/cpu/merge.hpp"
#include "kernels/cpu/registry.hpp"

namespace flashmoe::cpu {
namespace {

struct NoScope {};

// Kernels that end an item with the next one have a last one to end.
template <class Kernel>
inline void finish(Kernel& kernel) {
  if constexpr (requires { kernel.finish(); }) kernel.finish();
}

// A kernel for each head: what its keys are scaled by is part of the scale that a kernel begins with.
template <class V, class T, class Kernel>
inline void run_widened_items(const fms_attention_plan& plan, const fms_attention_args& args,
                              const plan::CpuLayout& layout, std::byte* workspace, Share share) {
  std::byte* const mine = workspace + static_cast<std::size_t>(share.thread) * layout.thread_bytes;
  WidenedKeys<V, T> keys(plan, args, mine + layout.widened);
  std::optional<Kernel> kernel;
  for_each_item(plan, args, share, [&](const Head& head, int64_t first_row, int64_t last_row, int64_t split) {
    if (!keys.is_of(head)) {
      if (kernel) finish(*kernel);  // before its keys are overwritten
      keys.begin(head);
      kernel.emplace(keys.plan(), layout, workspace, share.thread);
    }
    const KeyRange seen = split_keys(visible_hull(head, first_row, last_row), split, plan.kv_splits);
    kernel->run_item(keys.widened(head, seen), first_row, last_row, split);
  });
  if (kernel) finish(*kernel);
}

// `Scope` lives while a thread computes its items: the AMX kernel's holds the tile configuration.
template <class V, class T, class Kernel, class Scope = NoScope>
inline int run_items(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  const plan::CpuLayout layout = plan::cpu_layout(plan);
  return run_team(plan, [&](Share share) {
    {
      [[maybe_unused]] const Scope scope{};
      if (plan::has(plan.problem, FMS_KV_SCALES)) {
        run_widened_items<V, T, Kernel>(plan, args, layout, workspace, share);
      } else {
        Kernel kernel(plan, layout, workspace, share.thread);
        for_each_item(plan, args, share, [&](const Head& head, int64_t first_row, int64_t last_row, int64_t split) {
          kernel.run_item(head, first_row, last_row, split);
        });
        finish(kernel);
      }
    }
    if (plan.kv_splits == 1) return;
    team_barrier(share);
    combine_splits<V, T>(plan, args, layout, workspace, share);
  });
}

inline void report(const fms_attention_plan& plan, const fms_attention_args& args, fms_cpu_isa isa,
                   fms_kernel_family family, int threads) {
  if (args.info != nullptr) *args.info = {isa, family, threads, plan.kv_splits};
}

template <class V, fms_cpu_isa Isa>
void run_tile(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  static_assert(V::tile_vectors * V::width == plan::cpu_tile_policy(Isa).lanes, "the workspace is laid out for these");
  visit_dtype(plan.problem.dtype, [&](auto element) {
    using T = decltype(element);
    report(plan, args, Isa, FMS_KERNEL_TILE, run_items<V, T, TileKernel<V, T>>(plan, args, workspace));
  });
}

template <class V, fms_cpu_isa Isa>
void run_gemv(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  visit_dtype(plan.problem.dtype, [&](auto element) {
    using T = decltype(element);
    report(plan, args, Isa, FMS_KERNEL_GEMV, run_items<V, T, GemvKernel<V, T>>(plan, args, workspace));
  });
}

template <class V, int Degree>
void exp2_array(const float* x, float* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + V::width <= n; i += V::width) V::store(out + i, V::template exp2<Degree>(V::load(x + i)));
  float tail[V::width] = {};
  for (std::size_t k = 0; i + k < n; ++k) tail[k] = x[i + k];
  V::store(tail, V::template exp2<Degree>(V::load(tail)));
  for (std::size_t k = 0; i + k < n; ++k) out[i + k] = tail[k];
}

template <class V>
void exp2_of_degree(int degree, const float* x, float* out, std::size_t n) {
  switch (degree) {
    case 3:
      return exp2_array<V, 3>(x, out, n);
    case 4:
      return exp2_array<V, 4>(x, out, n);
    default:
      return exp2_array<V, 6>(x, out, n);
  }
}

}  // namespace
}  // namespace flashmoe::cpu
