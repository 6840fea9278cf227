#include "kernels/cuda/launch/merge_launch.hpp"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/launch/forward_params.hpp"
#include "plan/problem.hpp"
#include "support/status.hpp"

namespace flashmoe::cuda {
namespace {

// The kernel counts rows in 32 bits, and some beyond the last one.
constexpr int64_t most_rows = int64_t{1} << 30;

bool is_aligned(const fms_merge_problem& p, const plan::MergeArgs& args) {
  const int64_t elements = merge_unit_bytes / plan::element_bytes(p.dtype);
  if (p.head_dim % elements != 0) return false;
  for (const void* pointer : {args.o_a, args.o_b, static_cast<const void*>(args.o)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % merge_unit_bytes != 0) return false;
  }
  return std::ranges::all_of(std::initializer_list<fms_strides>{p.o_a, p.o_b, p.o}, [&](const fms_strides& s) {
    return s.batch % elements == 0 && s.head % elements == 0 && s.seq % elements == 0;
  });
}

}  // namespace

fms_status merge_launch(const fms_merge_problem& p, const plan::MergeArgs& args, MergeLaunch& launch,
                        fms_error* error) {
  // Divided, as the product may overflow.
  if (p.batch > most_rows / p.heads || p.batch * p.heads > most_rows / p.len) {
    return fail(error, FMS_NOT_SUPPORTED, "problem",
                "the problem has %" PRId64 " x %" PRId64 " x %" PRId64 " rows; allowed on a GPU: %" PRId64
                " together. Merge parts of the batch one after the other",
                p.batch, p.heads, p.len, most_rows);
  }
  MergeParams& to = launch.params;
  to = {};
  to.o_a = args.o_a;
  to.o_b = args.o_b;
  to.lse_a = args.lse_a;
  to.lse_b = args.lse_b;
  to.o = args.o;
  to.lse = args.lse;
  to.o_a_strides = strides_of(p.o_a);
  to.o_b_strides = strides_of(p.o_b);
  to.o_strides = strides_of(p.o);
  to.lse_a_strides = strides_of(p.lse_a);
  to.lse_b_strides = strides_of(p.lse_b);
  to.lse_strides = strides_of(p.lse);
  to.rows = static_cast<int>(p.batch * p.heads * p.len);
  to.heads = static_cast<int>(p.heads);
  to.len = static_cast<int>(p.len);
  to.by_heads = division_by(p.heads);
  to.by_len = division_by(p.len);
  to.element = static_cast<int>(p.dtype);
  to.is_aligned = is_aligned(p, args) ? 1 : 0;
  to.units =
      static_cast<int>(to.is_aligned != 0 ? p.head_dim * plan::element_bytes(p.dtype) / merge_unit_bytes : p.head_dim);
  constexpr int warp_log2 = 5;
  to.lanes_log2 = std::min(static_cast<int>(std::bit_width(static_cast<unsigned>(to.units - 1))), warp_log2);
  const int rows_per_cta = merge_threads >> to.lanes_log2;
  launch.ctas = static_cast<unsigned>((to.rows + rows_per_cta - 1) / rows_per_cta);
  return FMS_OK;
}

}  // namespace flashmoe::cuda
