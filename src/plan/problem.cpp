#include "plan/problem.hpp"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <iterator>

#include "support/raw_enum.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

// Positions are kept in 32-bit lanes by the kernels, and sums of two of them must not overflow.
constexpr int64_t max_len = int64_t{1} << 30;
constexpr int64_t max_count = int64_t{1} << 30;
// Elements a tensor may span: its byte offsets stay far from the end of int64.
constexpr int64_t max_span = int64_t{1} << 56;

// One axis of a tensor: how many steps it has and how far each goes.
struct Axis {
  const char* name;
  int64_t extent;
  int64_t stride;
};

fms_status check_range(const char* argument, int64_t value, int64_t low, int64_t high, fms_error* error) {
  if (value >= low && value <= high) return FMS_OK;
  return fail(error, FMS_INVALID_ARGUMENT, argument, "%s is %" PRId64 "; allowed: %" PRId64 " to %" PRId64, argument,
              value, low, high);
}

template <std::size_t N>
fms_status check_span(const char* tensor, const Axis (&axes)[N], int64_t innermost, fms_error* error) {
  __int128 span = innermost;
  for (const Axis& axis : axes) {
    if (axis.stride < 0) {
      char argument[48];
      std::snprintf(argument, sizeof argument, "%s.%s", tensor, axis.name);
      return fail(error, FMS_INVALID_ARGUMENT, argument, "%s is %" PRId64 "; allowed: a stride of 0 or more elements",
                  argument, axis.stride);
    }
    if (axis.extent > 0) span += static_cast<__int128>(axis.extent - 1) * axis.stride;
  }
  if (span > max_span) {
    return fail(error, FMS_INVALID_ARGUMENT, tensor,
                "%s spans more than 2^56 elements with its extents and strides; the strides are in elements, not bytes",
                tensor);
  }
  return FMS_OK;
}

// Two rows of an output must not share memory: sorted by stride, each axis must step over all inner ones.
template <std::size_t N>
fms_status check_no_overlap(const char* tensor, const Axis (&axes)[N], int64_t innermost, fms_error* error) {
  // An output without elements cannot overlap itself.
  if (std::any_of(std::begin(axes), std::end(axes), [](const Axis& axis) { return axis.extent == 0; })) return FMS_OK;
  Axis sorted[N];
  std::copy(std::begin(axes), std::end(axes), sorted);
  std::sort(std::begin(sorted), std::end(sorted), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  __int128 inner = innermost;
  for (const Axis& axis : sorted) {
    if (axis.extent <= 1) continue;
    if (axis.stride < inner) {
      char argument[48];
      std::snprintf(argument, sizeof argument, "%s.%s", tensor, axis.name);
      return fail(error, FMS_INVALID_ARGUMENT, argument,
                  "%s is %" PRId64 ", so that rows of the output would overlap; allowed: %" PRId64 " or more", argument,
                  axis.stride, static_cast<int64_t>(inner));
    }
    inner += static_cast<__int128>(axis.extent - 1) * axis.stride;
  }
  return FMS_OK;
}

fms_status check_dtype(const char* argument, const fms_dtype& stored, fms_error* error) {
  const int dtype = raw_value(stored);
  if (dtype == FMS_F16 || dtype == FMS_BF16 || dtype == FMS_F32) return FMS_OK;
  return fail(error, FMS_INVALID_ARGUMENT, argument, "%s is %d; allowed: FMS_F16 (1), FMS_BF16 (2), FMS_F32 (3)",
              argument, dtype);
}

fms_status check_float(const char* argument, float value, float low, float high, fms_error* error) {
  if (std::isfinite(value) && value >= low && value <= high) return FMS_OK;
  return fail(error, FMS_INVALID_ARGUMENT, argument, "%s is %g; allowed: a finite value from %g to %g", argument,
              static_cast<double>(value), static_cast<double>(low), static_cast<double>(high));
}

fms_status check_shape(const fms_attention_problem& p, fms_error* error) {
  if (auto s = check_range("problem.batch", p.batch, 0, max_count, error)) return s;
  if (auto s = check_range("problem.q_heads", p.q_heads, 1, max_count, error)) return s;
  if (auto s = check_range("problem.kv_heads", p.kv_heads, 1, p.q_heads, error)) return s;
  if (p.q_heads % p.kv_heads != 0) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.kv_heads",
                "problem.kv_heads is %" PRId64 "; allowed: a divisor of problem.q_heads, which is %" PRId64, p.kv_heads,
                p.q_heads);
  }
  if (auto s = check_range("problem.q_len", p.q_len, 0, max_len, error)) return s;
  if (auto s = check_range("problem.kv_len", p.kv_len, 0, max_len, error)) return s;
  if (auto s = check_range("problem.head_dim", p.head_dim, 1, FMS_MAX_HEAD_DIM, error)) return s;
  if (auto s = check_range("problem.value_dim", p.value_dim, 1, FMS_MAX_HEAD_DIM, error)) return s;
  const __int128 rows = static_cast<__int128>(p.batch) * p.q_heads * std::max<int64_t>(p.q_len, 1);
  if (rows > (int64_t{1} << 48)) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.batch",
                "problem.batch * q_heads * q_len is more than 2^48 rows, which no machine holds");
  }
  return FMS_OK;
}

fms_status check_features(const fms_attention_problem& p, fms_error* error) {
  constexpr uint32_t known = FMS_PARTIAL * 2U - 1;
  if ((p.features & ~known) != 0) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.features",
                "problem.features has unknown bits 0x%x; allowed: the fms_feature bits, 0x%x together",
                p.features & ~known, known);
  }
  if (has(p, FMS_KV_SCALES)) {
    const int kv_dtype = raw_value(p.kv_dtype);
    if (kv_dtype == FMS_KV_I8) {
      return fail(error, FMS_NOT_SUPPORTED, "problem.kv_dtype",
                  "problem.kv_dtype is FMS_KV_I8, which no device runs yet; allowed: FMS_KV_F8_E4M3 (1)");
    }
    if (kv_dtype != FMS_KV_F8_E4M3) {
      return fail(error, FMS_INVALID_ARGUMENT, "problem.kv_dtype",
                  "problem.kv_dtype is %d; allowed: FMS_KV_F8_E4M3 (1)", kv_dtype);
    }
  }
  const bool ragged_kv = has(p, FMS_RAGGED_KV);
  if (ragged_kv && (has(p, FMS_PAGED_KV) || has(p, FMS_KV_LENGTHS))) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.features",
                "problem.features is 0x%x: FMS_RAGGED_KV already gives the key lengths; "
                "allowed with it: neither FMS_PAGED_KV nor FMS_KV_LENGTHS",
                p.features);
  }
  if (has(p, FMS_RAGGED_Q) && has(p, FMS_Q_LENGTHS)) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.features",
                "problem.features is 0x%x: FMS_RAGGED_Q already gives the query lengths; "
                "allowed with it: no FMS_Q_LENGTHS",
                p.features);
  }
  if (has(p, FMS_RAGGED_Q)) {
    if (auto s = check_range("problem.total_q", p.total_q, 0, max_len, error)) return s;
  }
  if (ragged_kv) {
    if (auto s = check_range("problem.total_kv", p.total_kv, 0, max_len, error)) return s;
  }
  if (has(p, FMS_PAGED_KV)) {
    if (auto s = check_range("problem.page_size", p.page_size, 1, max_len, error)) return s;
    if (auto s = check_range("problem.page_count", p.page_count, 0, max_len, error)) return s;
    const int64_t pages_per_sequence = (p.kv_len + p.page_size - 1) / p.page_size;
    if (auto s = check_range("problem.block_table_stride", p.block_table_stride, pages_per_sequence, max_len, error)) {
      return s;
    }
  }
  return FMS_OK;
}

fms_status check_bias(const char* name, const char* group_name, const fms_attention_problem& p,
                      const fms_bias_strides& s, fms_error* error) {
  if (auto status = check_range(group_name, s.group, 0, max_count, error)) return status;
  return check_span(name,
                    {{"batch", bias_entries(p, s), s.batch},
                     {"head", p.q_heads, s.head},
                     {"q", p.q_len, s.q},
                     {"kv", p.kv_len, s.kv}},
                    1, error);
}

fms_status check_scores(const fms_attention_problem& p, fms_error* error) {
  if (auto s = check_float("problem.softmax_scale", p.softmax_scale, -1e30F, 1e30F, error)) return s;
  if (auto s = check_float("problem.softcap", p.softcap, 0.0F, 1e30F, error)) return s;
  if (auto s = check_range("problem.window_left", p.window_left, -1, max_len, error)) return s;
  if (auto s = check_range("problem.window_right", p.window_right, -1, max_len, error)) return s;
  if (has(p, FMS_BIAS)) {
    if (auto s = check_dtype("problem.bias_dtype", p.bias_dtype, error)) return s;
    if (auto s = check_bias("problem.bias", "problem.bias.group", p, p.bias, error)) return s;
  }
  if (has(p, FMS_BIAS2)) {
    if (auto s = check_dtype("problem.bias2_dtype", p.bias2_dtype, error)) return s;
    if (auto s = check_bias("problem.bias2", "problem.bias2.group", p, p.bias2, error)) return s;
  }
  if (has(p, FMS_MASK)) {
    if (auto s = check_bias("problem.mask", "problem.mask.group", p, p.mask, error)) return s;
  }
  return FMS_OK;
}

fms_status check_tensors(const fms_attention_problem& p, fms_error* error) {
  const int64_t q_batch = has(p, FMS_RAGGED_Q) ? 1 : p.batch;
  const int64_t q_rows = has(p, FMS_RAGGED_Q) ? p.total_q : p.q_len;
  int64_t kv_batch = p.batch;
  int64_t kv_rows = p.kv_len;
  if (has(p, FMS_RAGGED_KV)) {
    kv_batch = 1;
    kv_rows = p.total_kv;
  } else if (has(p, FMS_PAGED_KV)) {
    kv_batch = p.page_count;
    kv_rows = p.page_size;
  }
  // Strides that a feature leaves unused are not looked at.
  const auto without_batch = [](fms_strides s, bool unused) {
    if (unused) s.batch = 0;
    return s;
  };
  const fms_strides q = without_batch(p.q, has(p, FMS_RAGGED_Q));
  const fms_strides o = without_batch(p.o, has(p, FMS_RAGGED_Q));
  const fms_strides lse = without_batch(p.lse, has(p, FMS_RAGGED_Q));
  const fms_strides k = without_batch(p.k, has(p, FMS_RAGGED_KV));
  const fms_strides v = without_batch(p.v, has(p, FMS_RAGGED_KV));
  const auto check_input = [&](const char* name, int64_t batch, int64_t heads, int64_t rows, int64_t dim,
                               const fms_strides& s) {
    return check_span(name, {{"batch", batch, s.batch}, {"head", heads, s.head}, {"seq", rows, s.seq}}, dim, error);
  };
  if (auto s = check_input("problem.q", q_batch, p.q_heads, q_rows, p.head_dim, q)) return s;
  if (auto s = check_input("problem.k", kv_batch, p.kv_heads, kv_rows, p.head_dim, k)) return s;
  if (auto s = check_input("problem.v", kv_batch, p.kv_heads, kv_rows, p.value_dim, v)) return s;
  const Axis o_axes[] = {{"batch", q_batch, o.batch}, {"head", p.q_heads, o.head}, {"seq", q_rows, o.seq}};
  if (auto s = check_span("problem.o", o_axes, p.value_dim, error)) return s;
  if (auto s = check_no_overlap("problem.o", o_axes, p.value_dim, error)) return s;
  if (!has(p, FMS_LSE)) return FMS_OK;
  const Axis lse_axes[] = {{"batch", q_batch, lse.batch}, {"head", p.q_heads, lse.head}, {"seq", q_rows, lse.seq}};
  if (auto s = check_span("problem.lse", lse_axes, 1, error)) return s;
  return check_no_overlap("problem.lse", lse_axes, 1, error);
}

}  // namespace

fms_status check_problem(const fms_attention_problem& p, fms_error* error) {
  if (p.struct_size != sizeof p) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.struct_size",
                "problem.struct_size is %u; allowed: %zu (fms_attention_problem_init sets it)", p.struct_size,
                sizeof p);
  }
  if (auto s = check_dtype("problem.dtype", p.dtype, error)) return s;
  if (auto s = check_shape(p, error)) return s;
  if (auto s = check_features(p, error)) return s;
  if (auto s = check_scores(p, error)) return s;
  return check_tensors(p, error);
}

fms_status check_merge_problem(const fms_merge_problem& p, fms_error* error) {
  if (p.struct_size != sizeof p) {
    return fail(error, FMS_INVALID_ARGUMENT, "problem.struct_size",
                "problem.struct_size is %u; allowed: %zu (fms_merge_problem_init sets it)", p.struct_size, sizeof p);
  }
  if (auto s = check_dtype("problem.dtype", p.dtype, error)) return s;
  if (auto s = check_range("problem.batch", p.batch, 0, max_count, error)) return s;
  if (auto s = check_range("problem.heads", p.heads, 0, max_count, error)) return s;
  if (auto s = check_range("problem.len", p.len, 0, max_len, error)) return s;
  if (auto s = check_range("problem.head_dim", p.head_dim, 1, int64_t{1} << 20, error)) return s;
  const auto axes_of = [&](const fms_strides& s, Axis(&axes)[3]) {
    axes[0] = {"batch", p.batch, s.batch};
    axes[1] = {"head", p.heads, s.head};
    axes[2] = {"seq", p.len, s.seq};
  };
  const struct {
    const char* name;
    const fms_strides& strides;
    int64_t innermost;
    bool is_output;
  } tensors[] = {{"problem.o_a", p.o_a, p.head_dim, false}, {"problem.o_b", p.o_b, p.head_dim, false},
                 {"problem.o", p.o, p.head_dim, true},      {"problem.lse_a", p.lse_a, 1, false},
                 {"problem.lse_b", p.lse_b, 1, false},      {"problem.lse", p.lse, 1, true}};
  for (const auto& tensor : tensors) {
    Axis axes[3];
    axes_of(tensor.strides, axes);
    if (auto s = check_span(tensor.name, axes, tensor.innermost, error)) return s;
    if (!tensor.is_output) continue;
    if (auto s = check_no_overlap(tensor.name, axes, tensor.innermost, error)) return s;
  }
  return FMS_OK;
}

double visible_keys_per_row(const fms_attention_problem& p) {
  double keys = static_cast<double>(p.kv_len);
  if (p.window_left >= 0 && p.window_right >= 0) {
    keys = std::min(keys, static_cast<double>(p.window_left + p.window_right + 1));
  } else if (p.window_right >= 0 && has(p, FMS_TOP_LEFT)) {
    keys = std::min(keys, static_cast<double>(p.q_len) / 2 + static_cast<double>(p.window_right) + 1);
  } else if (p.window_right >= 0 && p.q_len > 1) {
    const double hidden = static_cast<double>(std::min(p.q_len, p.kv_len)) / 2;
    keys = std::max(keys - hidden + static_cast<double>(p.window_right), 1.0);
  }
  return std::min(keys, static_cast<double>(p.kv_len));
}

}  // namespace flashmoe::plan
