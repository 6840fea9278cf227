// From arrays and options, as Python names them, to the C ABI: shared by the `_C` module and the torch operators.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "failure.hpp"
#include "flashmoe/flashmoe.h"
#include "tensor_checks.hpp"
#include "tensor_view.hpp"

namespace flashmoe::python {

struct AttentionInputs {
#define FMS_REQUIRED(slot, name) TensorView name;
#define FMS_FLOATS(slot, name, dtype) const TensorView* name = nullptr;
#define FMS_INDICES(slot, name) const TensorView* name = nullptr;
#include "attention_arguments.def"
  bool are_described = false;  // no memory behind them: what index arrays hold is not known
};

inline constexpr int64_t kUnset = -1;

struct AttentionOptions {
  bool has_scale = false;
  double scale = 0.0;
  double softcap = 0.0;
  int64_t window_left = -1;
  int64_t window_right = -1;
  int64_t max_q = kUnset;
  int64_t max_kv = kUnset;
  Layout layout = Layout::kBhsd;
  bool wants_lse = false;
  int64_t num_splits = 0;
  int32_t threads = 0;  // 0: OpenMP's current maximum
  bool top_left = false;
  bool partial = false;
};

// Arrays as the kernels read them, where the caller has another type: indices of int64, sinks of half precision.
struct ConvertedArrays {
  std::vector<std::unique_ptr<TensorView>> views;
  std::vector<std::vector<int32_t>> indices;
  std::vector<float> sinks;
};

// A checked call: out and lse describe what the caller has to provide (shape, dtype, contiguous strides; no data).
struct AttentionCall {
  fms_attention_problem problem{};
  fms_attention_args args;
  fms_attention_plan plan;
  TensorView out;
  TensorView lse;
  std::unique_ptr<ConvertedArrays> converted;  // null: everything is read where it is
};

// Checks every argument and plans for the device that the arrays are on. `out` (may be null) replaces the contiguous
// result; its shape and dtype are checked. `lse` (may be null) likewise; it may have any shape with the right number of
// elements, but must be contiguous.
[[nodiscard]] bool prepare_attention(const AttentionInputs& inputs, const AttentionOptions& options,
                                     const TensorView* out, const TensorView* lse, AttentionCall& call,
                                     Failure& failure);

// The same checks of arrays that are only described, which need no driver for a GPU that is not there.
[[nodiscard]] bool check_description(const AttentionInputs& inputs, const AttentionOptions& options,
                                     const TensorView* out, Failure& failure);

// On the CPU. call.out.data, and call.lse.data if wanted, must be set. Uses this thread's workspace.
[[nodiscard]] bool run_attention(AttentionCall& call, Failure& failure);

// On a GPU: returns when the kernel is queued. workspace: call.plan.workspace_bytes of the GPU's memory, in use until
// the stream is past the kernel.
[[nodiscard]] bool queue_attention(AttentionCall& call, void* workspace, fms_stream stream, Failure& failure);

// Whether the work is large enough (about 20 us) for the GIL to be worth releasing.
[[nodiscard]] bool is_long_call(const AttentionCall& call);

// What this thread's last run_attention ran, as the kernel reported it.
[[nodiscard]] const fms_run_info& last_run_info();

}  // namespace flashmoe::python
