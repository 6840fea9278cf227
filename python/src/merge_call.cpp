#include "merge_call.hpp"

#include <array>
#include <string>
#include <utility>

#include "contexts.hpp"

namespace flashmoe::python {

bool prepare_merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b, const TensorView& lse_b,
                   Layout layout, bool anywhere, MergeCall& call, Failure& failure) {
  fms_dtype dtype{};
  if (!to_fms_dtype(o_a.dtype, dtype)) {
    return fail_dtype("o_a", o_a.dtype, failure);
  }
  const Place where = anywhere ? o_a.place : Place{};
  const bool packed = o_a.ndim == 3;
  const Axes axes = axes_of(layout, packed);
  const char* text = axes_text(layout, packed, false);
  if (!check_data("o_a", o_a, where, packed ? 3 : 4, text, failure) ||
      !check_data("o_b", o_b, where, packed ? 3 : 4, text, failure) ||
      !check_same_dtype("o_b", o_b, "o_a", o_a, failure)) {
    return false;
  }
  if (o_b.shape != o_a.shape) {
    return fail_value(failure, "o_b has shape " + shape_text(o_b) + ", but o_a has " + shape_text(o_a));
  }
  const int64_t batch = packed ? 1 : o_a.shape[axes.batch];
  fms_merge_problem_init(&call.problem, dtype, batch, o_a.shape[axes.head], o_a.shape[axes.seq],
                         o_a.shape[o_a.ndim - 1]);
  call.out = o_a;
  call.out.data = nullptr;
  set_contiguous_strides(call.out);
  call.lse = TensorView{};
  call.lse.dtype = ScalarType::kF32;
  call.lse.ndim = packed ? 2 : 3;
  call.lse.shape = packed ? std::array<int64_t, kMaxDims>{call.problem.heads, call.problem.len}
                          : std::array<int64_t, kMaxDims>{batch, call.problem.heads, call.problem.len};
  set_contiguous_strides(call.lse);
  for (const auto& [name, lse] : {std::pair{"lse_a", &lse_a}, std::pair{"lse_b", &lse_b}}) {
    if (!check_place(name, *lse, where, failure)) {
      return false;
    }
    if (lse->dtype != ScalarType::kF32 || lse->ndim != call.lse.ndim || lse->shape != call.lse.shape) {
      return fail_value(failure, std::string(name) + " is " + scalar_type_name(lse->dtype) + " of shape " +
                                     shape_text(*lse) + "; expected float32 " + shape_text(call.lse));
    }
    if (!check_aligned(name, *lse, 4, failure)) {
      return false;
    }
  }
  const Axes lse_axes = axes_of(Layout::kBhsd, packed);
  call.problem.o_a = strides_of(o_a, axes);
  call.problem.o_b = strides_of(o_b, axes);
  call.problem.o = strides_of(call.out, axes);
  call.problem.lse_a = strides_of(lse_a, lse_axes);
  call.problem.lse_b = strides_of(lse_b, lse_axes);
  call.problem.lse = strides_of(call.lse, lse_axes);
  call.o_a = o_a;
  call.lse_a = lse_a;
  call.o_b = o_b;
  call.lse_b = lse_b;
  return true;
}

bool run_merge(MergeCall& call, Failure& failure) {
  const fms_context* context = context_at(Place{}, failure);
  if (context == nullptr) {
    return false;
  }
  fms_error error;
  if (fms_merge_states(context, &call.problem, address_of<const void>(call.o_a), address_of<const float>(call.lse_a),
                       address_of<const void>(call.o_b), address_of<const float>(call.lse_b),
                       address_of<void>(call.out), address_of<float>(call.lse), nullptr, &error) != FMS_OK) {
    return fail_in_library(failure, error);
  }
  return true;
}
}  // namespace flashmoe::python
