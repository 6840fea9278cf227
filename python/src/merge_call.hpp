// merge_states, from arrays to the C ABI.
#pragma once

#include "failure.hpp"
#include "flashmoe/flashmoe.h"
#include "tensor_checks.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

struct MergeCall {
  fms_merge_problem problem;
  TensorView o_a, lse_a, o_b, lse_b;
  TensorView out;  // to be provided: shape, dtype and contiguous strides are set, the data is not
  TensorView lse;
};

// Checks every argument. On the CPU; with `anywhere` also where there is no kernel of ours: for descriptions, and for
// the composite that serves GPUs.
[[nodiscard]] bool prepare_merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                                 const TensorView& lse_b, Layout layout, bool anywhere, MergeCall& call,
                                 Failure& failure);
[[nodiscard]] bool run_merge(MergeCall& call, Failure& failure);

}  // namespace flashmoe::python
