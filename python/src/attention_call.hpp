// From arrays and options, as Python names them, to the C ABI: shared by the `_C` module and the torch operators.
#pragma once

#include <cstdint>
#include <string>

#include "flashmoe/flashmoe.h"
#include "tensor_view.hpp"

namespace flashmoe::python {

enum class FailureKind : uint8_t { kValue, kType, kNotSupported, kMemory, kRuntime };

struct Failure {
  FailureKind kind = FailureKind::kRuntime;
  std::string message;
};

enum class Layout : uint8_t { kBhsd, kBshd };

// The axes' names in order. Packed (ragged) arrays drop the b; the b of paged K and V counts pages.
[[nodiscard]] bool parse_layout(const char* text, Layout& layout, Failure& failure);

struct AttentionInputs {
  TensorView q, k, v;
  const TensorView* bias = nullptr;
  const TensorView* sinks = nullptr;
  const TensorView* cu_q = nullptr;
  const TensorView* cu_kv = nullptr;
  const TensorView* kv_lengths = nullptr;
  const TensorView* block_table = nullptr;
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
};

// A checked call: out and lse describe what the caller has to provide (shape, dtype, contiguous strides; no data).
struct AttentionCall {
  fms_attention_problem problem;
  fms_attention_args args;
  fms_attention_plan plan;
  TensorView out;
  TensorView lse;
};

// Checks every argument. `out` (may be null) replaces the contiguous result; its shape and dtype are checked.
// `lse` (may be null) likewise; it may have any shape with the right number of elements, but must be contiguous.
[[nodiscard]] bool prepare_attention(const AttentionInputs& inputs, const AttentionOptions& options,
                                     const TensorView* out, const TensorView* lse, AttentionCall& call,
                                     Failure& failure);

// call.out.data, and call.lse.data if wanted, must be set. Uses this thread's workspace.
[[nodiscard]] bool run_attention(AttentionCall& call, Failure& failure);

// Whether the work is large enough (about 20 us) for the GIL to be worth releasing.
[[nodiscard]] bool is_long_call(const AttentionCall& call);

// What this thread's last run_attention ran, as the kernel reported it.
[[nodiscard]] const fms_run_info& last_run_info();

struct MergeCall {
  fms_merge_problem problem;
  TensorView o_a, lse_a, o_b, lse_b;
  TensorView out;  // to be provided, as in AttentionCall
  TensorView lse;
};

[[nodiscard]] bool prepare_merge(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                                 const TensorView& lse_b, Layout layout, MergeCall& call, Failure& failure);
[[nodiscard]] bool run_merge(MergeCall& call, Failure& failure);

// One per process and binary, made on first use and never changed. Null, with the failure, if it cannot be made.
[[nodiscard]] const fms_context* cpu_context(Failure& failure);

[[nodiscard]] std::string shape_text(const TensorView& view);  // "(1, 8, 128, 64)"

}  // namespace flashmoe::python
