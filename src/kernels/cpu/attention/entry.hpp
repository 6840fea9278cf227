// What each ISA's translation unit exports: the kernels of its policy behind the registry's signatures.
#pragma once

#include "kernels/cpu/attention/gemv.hpp"
#include "kernels/cpu/attention/tile.hpp"
#include "kernels/cpu/merge.hpp"
#include "kernels/cpu/registry.hpp"

namespace flashmoe::cpu {
namespace {

struct NoScope {};

// `Scope` lives while a thread computes its items: the AMX kernel's holds the tile configuration.
template <class V, class T, class Kernel, class Scope = NoScope>
inline int run_items(const fms_attention_plan& plan, const fms_attention_args& args, std::byte* workspace) {
  const plan::CpuLayout layout = plan::cpu_layout(plan);
  return run_team(plan, [&](Share share) {
    Kernel kernel(plan, layout, workspace, share.thread);
    {
      [[maybe_unused]] const Scope scope{};
      for_each_item(plan, args, share, [&](const Head& head, int64_t first_row, int64_t last_row, int64_t split) {
        kernel.run_item(head, first_row, last_row, split);
      });
      if constexpr (requires { kernel.finish(); }) kernel.finish();  // of those that end an item with the next one
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
