#include "attention_call.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "contexts.hpp"
#include "current_gpu.hpp"

namespace flashmoe::python {
namespace {

int64_t longest(const TensorView& cumulative) {
  const auto* offsets = static_cast<const int32_t*>(cumulative.data);
  int64_t length = 0;
  for (int64_t i = 0; i + 1 < cumulative.shape[0]; ++i) {
    length = std::max<int64_t>(length, int64_t{offsets[i + 1]} - offsets[i]);
  }
  return length;
}

int64_t largest(const TensorView& lengths) {
  const auto* values = static_cast<const int32_t*>(lengths.data);
  int64_t length = 0;
  for (int64_t i = 0; i < lengths.shape[0]; ++i) {
    length = std::max<int64_t>(length, values[i]);
  }
  return length;
}

// Not on a GPU, where reading would wait for everything that is queued.
bool is_readable(const TensorView& view) {
  return view.data != nullptr && view.place.device == DeviceType::kCpu;
}

// Of a description: the least that a length can be, so that no check of another array against it is too strict.
int64_t unknown_length(int64_t total) {
  return std::min<int64_t>(total, 1);
}

bool set_ragged_length(const char* name, const char* max_name, const TensorView& cumulative, int64_t max_given,
                       int64_t total, bool are_described, int64_t& length, Failure& failure) {
  if (max_given != kUnset) {
    length = max_given;
  } else if (is_readable(cumulative)) {
    length = longest(cumulative);
  } else if (are_described && cumulative.place.device != DeviceType::kCuda) {
    length = unknown_length(total);
  } else {
    return fail_value(failure,
                      std::string(max_name) + " is needed when " + name +
                          (cumulative.data == nullptr && !are_described ? " has no data to read it from"
                                                                        : " is on a GPU: reading it there would wait"));
  }
  return true;
}

bool describe_queries(const AttentionInputs& in, const AttentionOptions& options, fms_attention_problem& problem,
                      Failure& failure) {
  const bool packed = in.cu_q != nullptr;
  const Axes axes = axes_of(options.layout, packed);
  const char* text = axes_text(options.layout, packed, false);
  if (!check_data("q", in.q, in.q.place, packed ? 3 : 4, text, failure)) {
    return false;
  }
  if (packed && in.q_lengths != nullptr) {
    return fail_value(failure, "q_lengths and cu_q exclude each other: cu_q already gives the lengths");
  }
  if (packed) {
    problem.features |= FMS_RAGGED_Q;
    problem.batch = std::max<int64_t>(in.cu_q->shape[0] - 1, 0);
    problem.total_q = in.q.shape[axes.seq];
    if (!check_index_array("cu_q", *in.cu_q, in.q.place, 1, problem.batch + 1, "batch + 1", failure) ||
        !set_ragged_length("cu_q", "max_q", *in.cu_q, options.max_q, problem.total_q, in.are_described, problem.q_len,
                           failure)) {
      return false;
    }
  } else {
    if (options.max_q != kUnset) {
      return fail_value(failure, "max_q is only for packed queries; give cu_q too");
    }
    problem.batch = in.q.shape[axes.batch];
    problem.q_len = in.q.shape[axes.seq];
  }
  if (in.q_lengths != nullptr) {
    problem.features |= FMS_Q_LENGTHS;
    if (!check_index_array("q_lengths", *in.q_lengths, in.q.place, 1, problem.batch, "batch", failure)) {
      return false;
    }
  }
  problem.q_heads = in.q.shape[axes.head];
  problem.head_dim = in.q.shape[in.q.ndim - 1];
  problem.q = strides_of(in.q, axes);
  return true;
}

bool check_like_keys(const TensorView& k, const TensorView& v, Failure& failure) {
  if (std::equal(k.shape.begin(), k.shape.begin() + k.ndim - 1, v.shape.begin())) {
    return true;
  }
  return fail_value(failure, "v has shape " + shape_text(v) + ", but k has " + shape_text(k) +
                                 "; they must be the same but for the last dimension");
}

bool describe_paged_keys(const AttentionInputs& in, const AttentionOptions& options, Axes axes,
                         fms_attention_problem& problem, Failure& failure) {
  if (in.cu_kv != nullptr) {
    return fail_value(failure, "cu_kv and block_table exclude each other: packed keys are not paged");
  }
  if (!check_index_array("block_table", *in.block_table, in.q.place, 2, problem.batch, "batch", failure)) {
    return false;
  }
  problem.features |= FMS_PAGED_KV;
  problem.page_count = in.k.shape[axes.batch];
  problem.page_size = in.k.shape[axes.seq];
  problem.block_table_stride = in.block_table->shape[0] > 1 ? in.block_table->strides[0] : in.block_table->shape[1];
  const int64_t reachable = in.block_table->shape[1] * problem.page_size;
  problem.kv_len = options.max_kv != kUnset                                  ? options.max_kv
                   : in.kv_lengths != nullptr && is_readable(*in.kv_lengths) ? largest(*in.kv_lengths)
                   : in.kv_lengths != nullptr && in.are_described            ? unknown_length(reachable)
                                                                             : reachable;
  if (problem.kv_len > reachable) {
    return fail_value(failure, "block_table has " + std::to_string(in.block_table->shape[1]) + " pages of " +
                                   std::to_string(problem.page_size) + " keys, fewer than the longest sequence's " +
                                   std::to_string(problem.kv_len));
  }
  return true;
}

bool describe_keys(const AttentionInputs& in, const AttentionOptions& options, fms_attention_problem& problem,
                   Failure& failure) {
  const bool packed = in.cu_kv != nullptr;
  const bool paged = in.block_table != nullptr;
  const Axes axes = axes_of(options.layout, packed);
  const char* text = axes_text(options.layout, packed, paged);
  if (!check_data("k", in.k, in.q.place, packed ? 3 : 4, text, failure) ||
      !check_data("v", in.v, in.q.place, packed ? 3 : 4, text, failure) || !check_like_keys(in.k, in.v, failure)) {
    return false;
  }
  problem.kv_heads = in.k.shape[axes.head];
  problem.k = strides_of(in.k, axes);
  problem.v = strides_of(in.v, axes);
  problem.value_dim = in.v.shape[in.v.ndim - 1];
  const int64_t key_dim = in.k.shape[in.k.ndim - 1];
  if (key_dim != problem.head_dim) {
    return fail_value(failure, "k has head dimension " + std::to_string(key_dim) + ", but q has " +
                                   std::to_string(problem.head_dim) + "; they must be the same");
  }
  if (problem.kv_heads < 1 || problem.q_heads % problem.kv_heads != 0) {
    return fail_value(failure, "k has " + std::to_string(problem.kv_heads) + " heads, which does not divide q's " +
                                   std::to_string(problem.q_heads) + " (shapes " + shape_text(in.k) + " and " +
                                   shape_text(in.q) + ", read as " + text + ")");
  }
  if (in.kv_lengths != nullptr) {
    if (packed) {
      return fail_value(failure, "kv_lengths and cu_kv exclude each other: cu_kv already gives the lengths");
    }
    problem.features |= FMS_KV_LENGTHS;
    if (!check_index_array("kv_lengths", *in.kv_lengths, in.q.place, 1, problem.batch, "batch", failure)) {
      return false;
    }
  }
  if (in.kv_starts != nullptr) {
    problem.features |= FMS_KV_STARTS;
    if (!check_index_array("kv_starts", *in.kv_starts, in.q.place, 1, problem.batch, "batch", failure)) {
      return false;
    }
  }
  if (paged) {
    return describe_paged_keys(in, options, axes, problem, failure);
  }
  if (packed) {
    problem.features |= FMS_RAGGED_KV;
    problem.total_kv = in.k.shape[axes.seq];
    return check_index_array("cu_kv", *in.cu_kv, in.q.place, 1, problem.batch + 1, "batch + 1", failure) &&
           set_ragged_length("cu_kv", "max_kv", *in.cu_kv, options.max_kv, problem.total_kv, in.are_described,
                             problem.kv_len, failure);
  }
  if (options.max_kv != kUnset) {
    return fail_value(failure, "max_kv is only for packed or paged keys; give cu_kv or block_table too");
  }
  if (in.k.shape[axes.batch] != problem.batch) {
    return fail_value(failure, "k has batch " + std::to_string(in.k.shape[axes.batch]) + ", but q has " +
                                   std::to_string(problem.batch) + " (read as " + text + ")");
  }
  problem.kv_len = in.k.shape[axes.seq];
  return true;
}

// Where a term of the scores lies, or a mask. Of five dimensions the first two make up the batch: what has the size 1
// in the second is shared by so many neighbours as q.shape[0] has for each of the first.
bool describe_broadcast(const char* name, const TensorView& bias, const fms_attention_problem& problem,
                        fms_bias_strides& strides, Failure& failure) {
  const std::array<int64_t, 4> full{problem.batch, problem.q_heads, problem.q_len, problem.kv_len};
  const auto refused = [&] {
    return fail_value(failure, std::string(name) + " has shape " + shape_text(bias) +
                                   ", which does not broadcast to (" + std::to_string(full[0]) + ", " +
                                   std::to_string(full[1]) + ", " + std::to_string(full[2]) + ", " +
                                   std::to_string(full[3]) + ") (batch, heads of q, q_len, kv_len)");
  };
  // Sequences of different lengths read a corner of the bias, so that it may be larger than the longest.
  const bool may_exceed = (problem.features & (FMS_RAGGED_Q | FMS_RAGGED_KV | FMS_PAGED_KV)) != 0;
  std::array<int64_t, 4> found{};
  const int last_four = bias.ndim - 4;  // where the last four dimensions begin; below 0: leading ones are missing
  for (int axis = std::max(-last_four, 0); axis < 4; ++axis) {
    const int64_t size = bias.shape[axis + last_four];
    const bool is_grouped = axis == 0 && bias.ndim == 5;
    const bool fits = size == full[axis] || (may_exceed && axis >= 2 && size > full[axis]);
    if (!fits && size != 1 && !is_grouped) {
      return refused();
    }
    found[axis] = size == 1 ? 0 : bias.strides[axis + last_four];
  }
  strides = {found[0], found[1], found[2], found[3], 1};
  if (bias.ndim < 5) {
    return true;
  }
  const int64_t outer = bias.shape[0], inner = bias.shape[1];
  if (outer < 1 || problem.batch % outer != 0 || (inner != 1 && outer * inner != problem.batch)) {
    return refused();
  }
  if (inner == 1) {
    strides.group = problem.batch / outer;
    strides.batch = outer == 1 ? 0 : bias.strides[0];
  } else if (outer > 1 && bias.strides[0] != inner * bias.strides[1]) {
    return fail_value(failure,
                      std::string(name) + " has shape " + shape_text(bias) +
                          " and strides that its first two dimensions cannot be joined with; make it contiguous");
  }
  return true;
}

bool describe_bias(const char* name, const TensorView& bias, Place where, const fms_attention_problem& problem,
                   fms_dtype& dtype, fms_bias_strides& strides, Failure& failure) {
  if (!check_place(name, bias, where, failure)) {
    return false;
  }
  if (!to_fms_dtype(bias.dtype, dtype)) {
    return fail_value(failure, std::string(name) + " is " + scalar_type_name(bias.dtype) +
                                   "; it must be float16, bfloat16 or float32 (truth values are a mask)");
  }
  return check_aligned(name, bias, bias.dtype == ScalarType::kF32 ? 4 : 2, failure) &&
         describe_broadcast(name, bias, problem, strides, failure);
}

bool describe_mask(const TensorView& mask, Place where, fms_attention_problem& problem, Failure& failure) {
  if (!check_place("mask", mask, where, failure)) {
    return false;
  }
  if (mask.dtype != ScalarType::kBool) {
    return fail_value(failure, std::string("mask is ") + scalar_type_name(mask.dtype) +
                                   "; it must be bool, True where a key is seen (what is added to scores is a bias)");
  }
  problem.features |= FMS_MASK;
  return describe_broadcast("mask", mask, problem, problem.mask, failure);
}

bool describe_terms(const AttentionInputs& in, fms_attention_problem& problem, Failure& failure) {
  if (in.mask != nullptr && !describe_mask(*in.mask, in.q.place, problem, failure)) {
    return false;
  }
  if (in.bias != nullptr) {
    problem.features |= FMS_BIAS;
    if (!describe_bias("bias", *in.bias, in.q.place, problem, problem.bias_dtype, problem.bias, failure)) {
      return false;
    }
  }
  if (in.bias2 == nullptr) {
    return true;
  }
  problem.features |= FMS_BIAS2;
  return describe_bias("bias2", *in.bias2, in.q.place, problem, problem.bias2_dtype, problem.bias2, failure);
}

bool check_key_dtypes(const AttentionInputs& in, Failure& failure) {
  if (in.k_scales == nullptr && in.v_scales == nullptr) {
    return check_same_dtype("k", in.k, "q", in.q, failure) && check_same_dtype("v", in.v, "q", in.q, failure);
  }
  if (in.k_scales == nullptr || in.v_scales == nullptr) {
    return fail_value(failure, "k_scales and v_scales go together; one of them is missing");
  }
  const std::pair<const char*, const TensorView*> arrays[] = {{"k", &in.k}, {"v", &in.v}};
  for (const auto& [name, array] : arrays) {
    if (array->dtype != ScalarType::kF8E4M3FN) {
      return fail_value(failure, std::string(name) + " is " + scalar_type_name(array->dtype) +
                                     "; with k_scales and v_scales it must be float8_e4m3fn");
    }
  }
  return true;
}

bool describe_scales(const AttentionInputs& in, fms_attention_problem& problem, Failure& failure) {
  if (in.k_scales == nullptr) {
    return true;
  }
  problem.features |= FMS_KV_SCALES;
  problem.kv_dtype = FMS_KV_F8_E4M3;
  const std::pair<const char*, const TensorView*> arrays[] = {{"k_scales", in.k_scales}, {"v_scales", in.v_scales}};
  for (const auto& [name, scales] : arrays) {
    if (!check_place(name, *scales, in.q.place, failure)) {
      return false;
    }
    if (scales->dtype != ScalarType::kF32 || scales->ndim != 1 || scales->shape[0] != problem.kv_heads ||
        !is_contiguous(*scales)) {
      return fail_value(failure, std::string(name) + " is " + scalar_type_name(scales->dtype) + " of shape " +
                                     shape_text(*scales) + "; expected a contiguous float32 (" +
                                     std::to_string(problem.kv_heads) + ",), one per head of k");
    }
    if (!check_aligned(name, *scales, 4, failure)) {
      return false;
    }
  }
  return true;
}

bool describe_sinks(const TensorView& sinks, Place where, fms_attention_problem& problem, Failure& failure) {
  if (!check_place("sinks", sinks, where, failure)) {
    return false;
  }
  if (sinks.dtype != ScalarType::kF32) {
    return fail_value(failure, std::string("sinks is ") + scalar_type_name(sinks.dtype) +
                                   "; it must be float32, on the CPU also float16 or bfloat16");
  }
  if (sinks.ndim != 1 || sinks.shape[0] != problem.q_heads || !is_contiguous(sinks)) {
    return fail_value(failure, "sinks has shape " + shape_text(sinks) + "; expected a contiguous (" +
                                   std::to_string(problem.q_heads) + ",), one per head of q");
  }
  problem.features |= FMS_SINKS;
  return check_aligned("sinks", sinks, 4, failure);
}

bool describe_outputs(const AttentionInputs& in, const AttentionOptions& options, const TensorView* out,
                      const TensorView* lse, AttentionCall& call, Failure& failure) {
  const bool packed = in.cu_q != nullptr;
  call.out = in.q;
  call.out.data = nullptr;
  call.out.shape[call.out.ndim - 1] = call.problem.value_dim;
  call.out.dtype = options.partial ? ScalarType::kF32 : in.q.dtype;
  set_contiguous_strides(call.out);
  if (out != nullptr) {
    if (!check_same_dtype("out", *out, options.partial ? "a partial result" : "q", call.out, failure) ||
        !check_data("out", *out, in.q.place, in.q.ndim, axes_text(options.layout, packed, false), failure)) {
      return false;
    }
    if (out->shape != call.out.shape) {
      return fail_value(failure, "out has shape " + shape_text(*out) + "; expected " + shape_text(call.out) +
                                     ", that of q with the last dimension of v");
    }
    call.out = *out;
  }
  fms_attention_problem& problem = call.problem;
  problem.o = strides_of(call.out, axes_of(options.layout, packed));

  call.lse = TensorView{};
  call.lse.dtype = ScalarType::kF32;
  call.lse.place = in.q.place;
  const int64_t rows = packed ? problem.total_q : problem.q_len;
  if (packed) {
    call.lse.ndim = 2;
    call.lse.shape = {problem.q_heads, rows};
  } else {
    call.lse.ndim = 3;
    call.lse.shape = {problem.batch, problem.q_heads, rows};
  }
  set_contiguous_strides(call.lse);
  problem.lse = strides_of(call.lse, axes_of(Layout::kBhsd, packed));
  if (lse != nullptr) {
    if (!check_place("lse", *lse, in.q.place, failure)) {
      return false;
    }
    if (lse->dtype != ScalarType::kF32 || element_count(*lse) != element_count(call.lse) || !is_contiguous(*lse)) {
      return fail_value(failure, std::string("lse is ") + scalar_type_name(lse->dtype) + " of shape " +
                                     shape_text(*lse) + "; expected contiguous float32 with " +
                                     std::to_string(element_count(call.lse)) + " elements (batch * heads * rows)");
    }
    call.lse.data = lse->data;
  }
  if (lse != nullptr || options.wants_lse) {
    problem.features |= FMS_LSE;
  }
  return true;
}

// From arrays and options to the problem and the arguments, everything checked that does not need the library.
bool describe_attention(const AttentionInputs& in, const AttentionOptions& options, const TensorView* out,
                        const TensorView* lse, AttentionCall& call, Failure& failure) {
  fms_dtype dtype{};
  if (!to_fms_dtype(in.q.dtype, dtype)) {
    return fail_dtype("q", in.q.dtype, failure);
  }
  if (!check_key_dtypes(in, failure)) {
    return false;
  }
  fms_attention_problem& problem = call.problem;
  problem = fms_attention_problem{};
  problem.struct_size = sizeof problem;
  problem.dtype = dtype;
  if (!describe_queries(in, options, problem, failure) || !describe_keys(in, options, problem, failure) ||
      !describe_scales(in, problem, failure) || !describe_terms(in, problem, failure) ||
      (in.sinks != nullptr && !describe_sinks(*in.sinks, in.q.place, problem, failure)) ||
      !describe_outputs(in, options, out, lse, call, failure)) {
    return false;
  }
  if (options.has_scale) {
    problem.softmax_scale = static_cast<float>(options.scale);
  } else {
    fms_attention_problem defaults;  // the library's own rule for the scale
    fms_attention_problem_init(&defaults, dtype, 1, 1, 1, 1, 1, std::max<int64_t>(problem.head_dim, 1));
    problem.softmax_scale = defaults.softmax_scale;
  }
  problem.softcap = static_cast<float>(options.softcap);
  problem.window_left = options.window_left;
  problem.window_right = options.window_right;
  if (options.top_left) {
    problem.features |= FMS_TOP_LEFT;
  }
  if (options.partial) {
    problem.features |= FMS_PARTIAL;
  }

  call.args = fms_attention_args{};
  call.args.struct_size = sizeof call.args;
  call.args.q = address_of<const void>(in.q);
  call.args.k = address_of<const void>(in.k);
  call.args.v = address_of<const void>(in.v);
  call.args.bias = in.bias != nullptr ? address_of<const void>(*in.bias) : nullptr;
  call.args.bias2 = in.bias2 != nullptr ? address_of<const void>(*in.bias2) : nullptr;
  call.args.k_scales = in.k_scales != nullptr ? address_of<const float>(*in.k_scales) : nullptr;
  call.args.v_scales = in.v_scales != nullptr ? address_of<const float>(*in.v_scales) : nullptr;
  call.args.mask = in.mask != nullptr ? address_of<const uint8_t>(*in.mask) : nullptr;
  call.args.sinks = in.sinks != nullptr ? address_of<const float>(*in.sinks) : nullptr;
  call.args.cu_q = in.cu_q != nullptr ? address_of<const int32_t>(*in.cu_q) : nullptr;
  call.args.cu_kv = in.cu_kv != nullptr ? address_of<const int32_t>(*in.cu_kv) : nullptr;
  call.args.kv_lengths = in.kv_lengths != nullptr ? address_of<const int32_t>(*in.kv_lengths) : nullptr;
  call.args.block_table = in.block_table != nullptr ? address_of<const int32_t>(*in.block_table) : nullptr;
  call.args.kv_starts = in.kv_starts != nullptr ? address_of<const int32_t>(*in.kv_starts) : nullptr;
  call.args.q_lengths = in.q_lengths != nullptr ? address_of<const int32_t>(*in.q_lengths) : nullptr;

  if (options.num_splits < 0 || options.num_splits > std::numeric_limits<int32_t>::max()) {
    return fail_value(failure, "num_splits is " + std::to_string(options.num_splits) +
                                   "; it must be 0 (the planner chooses) or a positive number");
  }
  return true;
}

bool plan_at(Place where, const AttentionOptions& options, AttentionCall& call, Failure& failure) {
  fms_plan_options plan_options{};
  plan_options.struct_size = sizeof plan_options;
  plan_options.threads = options.threads;
  plan_options.kv_splits = static_cast<int32_t>(options.num_splits);
  CurrentGpu current;
  if (!current.set(where, failure)) {
    return false;
  }
  const fms_context* context = context_at(where, failure);
  if (context == nullptr) {
    return false;
  }
  fms_error error;
  if (fms_attention_plan_make(context, &call.problem, &plan_options, &call.plan, &error) != FMS_OK) {
    return fail_in_library(failure, error);
  }
  return true;
}

void set_outputs(AttentionCall& call) {
  call.args.o = address_of<void>(call.out);
  call.args.lse = (call.problem.features & FMS_LSE) != 0 ? address_of<float>(call.lse) : nullptr;
}

struct Workspace {
  void* memory = nullptr;
  size_t bytes = 0;
  fms_run_info last_run{};

  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() { std::free(memory); }

  bool reserve(size_t wanted) {
    if (wanted <= bytes) {
      return true;
    }
    const size_t rounded = (wanted + FMS_WORKSPACE_ALIGNMENT - 1) / FMS_WORKSPACE_ALIGNMENT * FMS_WORKSPACE_ALIGNMENT;
    std::free(memory);
    memory = std::aligned_alloc(FMS_WORKSPACE_ALIGNMENT, rounded);
    bytes = memory == nullptr ? 0 : rounded;
    return memory != nullptr;
  }
};

// ---- arrays of other types ------------------------------------------------------------------------------------------

bool is_int64(const TensorView* indices) {
  return indices != nullptr && indices->dtype == ScalarType::kI64 && indices->place.device != DeviceType::kCuda;
}

bool is_half(const TensorView* sinks) {
  return sinks != nullptr && (sinks->dtype == ScalarType::kF16 || sinks->dtype == ScalarType::kBF16) &&
         sinks->place.device != DeviceType::kCuda;
}

// A contiguous copy's description.
TensorView* add_view(const TensorView& of, ScalarType dtype, void* data, ConvertedArrays& converted) {
  converted.views.push_back(std::make_unique<TensorView>(of));
  TensorView& view = *converted.views.back();
  view.dtype = dtype;
  view.data = data;
  set_contiguous_strides(view);
  return &view;
}

bool convert_indices(const char* name, const TensorView*& indices, ConvertedArrays& converted, Failure& failure) {
  const int64_t count = element_count(*indices);
  if (indices->data != nullptr && !is_contiguous(*indices)) {
    return fail_value(failure, std::string(name) + " must be contiguous");
  }
  std::vector<int32_t>& values = converted.indices.emplace_back();
  for (int64_t i = 0; indices->data != nullptr && i < count; ++i) {
    int64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(indices->data) + i * sizeof value, sizeof value);
    if (value != static_cast<int32_t>(value)) {
      return fail_value(failure, std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(value) +
                                     "; allowed: what fits 32 bits");
    }
    values.push_back(static_cast<int32_t>(value));
  }
  indices = add_view(*indices, ScalarType::kI32, indices->data == nullptr ? nullptr : values.data(), converted);
  return true;
}

float widened(uint16_t bits, ScalarType dtype) {
  if (dtype == ScalarType::kBF16) {
    return std::bit_cast<float>(uint32_t{bits} << 16);
  }
  // The exponent of fp16 read as one of fp32 is 112 too small; infinity and NaN have the largest of either.
  const uint32_t sign = (bits & 0x8000U) << 16, magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) {
    return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  }
  return std::bit_cast<float>(sign | magnitude << 13) * 0x1p112F;
}

bool convert_sinks(const TensorView*& sinks, ConvertedArrays& converted, Failure& failure) {
  if (sinks->data != nullptr && !is_contiguous(*sinks)) {
    return fail_value(failure, "sinks must be contiguous");
  }
  for (int64_t i = 0; sinks->data != nullptr && i < element_count(*sinks); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(sinks->data) + i * sizeof bits, sizeof bits);
    converted.sinks.push_back(widened(bits, sinks->dtype));
  }
  sinks = add_view(*sinks, ScalarType::kF32, sinks->data == nullptr ? nullptr : converted.sinks.data(), converted);
  return true;
}

bool needs_conversion(const AttentionInputs& in) {
  bool any = is_half(in.sinks);
#define FMS_INDICES(slot, name) any = any || is_int64(in.name);
#include "attention_arguments.def"
  return any;
}

bool convert(AttentionInputs& in, ConvertedArrays& converted, Failure& failure) {
#define FMS_INDICES(slot, name) \
  if (is_int64(in.name) && !convert_indices(#name, in.name, converted, failure)) return false;
#include "attention_arguments.def"
  return !is_half(in.sinks) || convert_sinks(in.sinks, converted, failure);
}

// Rows beyond q_lengths are rows without keys: 0 and -inf.
void clear_missing_rows(const AttentionCall& call) {
  const fms_attention_problem& p = call.problem;
  const size_t bytes = p.dtype == FMS_F32 || (p.features & FMS_PARTIAL) != 0 ? 4 : 2;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.q_heads; ++h) {
      // Not below 0: the caller may change his array meanwhile.
      for (int64_t i = std::max<int64_t>(call.args.q_lengths[b], 0); i < p.q_len; ++i) {
        const int64_t o = b * p.o.batch + h * p.o.head + i * p.o.seq;
        std::memset(static_cast<char*>(call.args.o) + o * bytes, 0, static_cast<size_t>(p.value_dim) * bytes);
        if (call.args.lse != nullptr) {
          call.args.lse[b * p.lse.batch + h * p.lse.head + i * p.lse.seq] = -std::numeric_limits<float>::infinity();
        }
      }
    }
  }
}

// Grow-only, so that a loop of equal calls allocates once; freed when the thread ends.
thread_local Workspace t_workspace;

}  // namespace

bool prepare_attention(const AttentionInputs& in, const AttentionOptions& options, const TensorView* out,
                       const TensorView* lse, AttentionCall& call, Failure& failure) {
  if (needs_conversion(in)) {
    AttentionInputs as_read = in;
    call.converted = std::make_unique<ConvertedArrays>();
    return convert(as_read, *call.converted, failure) &&
           describe_attention(as_read, options, out, lse, call, failure) && plan_at(in.q.place, options, call, failure);
  }
  return describe_attention(in, options, out, lse, call, failure) && plan_at(in.q.place, options, call, failure);
}

bool check_description(const AttentionInputs& given, const AttentionOptions& options, const TensorView* out,
                       Failure& failure) {
  AttentionCall call;
  AttentionInputs in = given;
  ConvertedArrays converted;
  if (!convert(in, converted, failure) || !describe_attention(in, options, out, nullptr, call, failure)) {
    return false;
  }
  if (in.q.place.device != DeviceType::kCuda) {  // what is said of the meta device holds on the CPU
    return plan_at(Place{}, options, call, failure);
  }
  fms_error error;
  if (fms_attention_problem_check(&call.problem, &error) != FMS_OK) {
    return fail_in_library(failure, error);
  }
  if (call.problem.dtype == FMS_F32) {  // the planner's words; to hear them from it takes a driver
    return fail(failure, FailureKind::kNotSupported, "q.dtype is fp32; allowed on a GPU: fp16, bf16");
  }
  constexpr int64_t most_head_dim = 256;
  const std::pair<const char*, int64_t> sizes[] = {{"q", call.problem.head_dim}, {"v", call.problem.value_dim}};
  for (const auto& [name, size] : sizes) {
    if (size <= most_head_dim) {
      continue;
    }
    return fail(failure, FailureKind::kNotSupported,
                "the last dimension of " + std::string(name) + " is " + std::to_string(size) +
                    "; allowed on a GPU: 1 to " + std::to_string(most_head_dim));
  }
  return true;
}

bool run_attention(AttentionCall& call, Failure& failure) {
  Workspace& workspace = t_workspace;
  if (!workspace.reserve(call.plan.workspace_bytes)) {
    return fail(failure, FailureKind::kMemory,
                "no memory for a workspace of " + std::to_string(call.plan.workspace_bytes) + " bytes");
  }
  set_outputs(call);
  call.args.info = &workspace.last_run;
  fms_error error;
  if (fms_attention_run(context_at({}, failure), &call.plan, &call.args, workspace.memory, workspace.bytes, nullptr,
                        &error) != FMS_OK) {
    return fail_in_library(failure, error);
  }
  if ((call.problem.features & FMS_Q_LENGTHS) != 0) {
    clear_missing_rows(call);
  }
  return true;
}

bool queue_attention(AttentionCall& call, void* workspace, fms_stream stream, Failure& failure) {
  set_outputs(call);
  CurrentGpu current;
  if (!current.set(call.out.place, failure)) {
    return false;
  }
  fms_error error;
  if (fms_attention_run(context_at(call.out.place, failure), &call.plan, &call.args, workspace,
                        call.plan.workspace_bytes, stream, &error) != FMS_OK) {
    return fail_in_library(failure, error);
  }
  return true;
}

bool is_long_call(const AttentionCall& call) {
  const fms_attention_problem& p = call.problem;
  const double flops = 4.0 * static_cast<double>(p.batch) * static_cast<double>(p.q_heads) *
                       static_cast<double>(p.q_len) * static_cast<double>(p.kv_len) *
                       static_cast<double>(std::max(p.head_dim, p.value_dim));
  constexpr double kFlopsIn20Microseconds = 2e6;  // at a modest 100 GFLOP/s
  return flops > kFlopsIn20Microseconds;
}

const fms_run_info& last_run_info() {
  return t_workspace.last_run;
}
}  // namespace flashmoe::python
