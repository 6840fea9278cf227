#include "kernels/reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/number_formats.hpp"

namespace flashmoe::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool has(const fms_attention_problem& problem, fms_feature feature) {
  return (problem.features & feature) != 0;
}

int64_t q_length(const fms_attention_problem& problem, const fms_attention_args& args, int64_t b) {
  if (has(problem, FMS_Q_LENGTHS)) {
    return args.q_lengths[b];
  }
  return has(problem, FMS_RAGGED_Q) ? args.cu_q[b + 1] - args.cu_q[b] : problem.q_len;
}

int64_t kv_length(const fms_attention_problem& problem, const fms_attention_args& args, int64_t b) {
  if (has(problem, FMS_KV_LENGTHS)) {
    return args.kv_lengths[b];
  }
  return has(problem, FMS_RAGGED_KV) ? args.cu_kv[b + 1] - args.cu_kv[b] : problem.kv_len;
}

// Element offset of query row i of sequence b, head h.
int64_t q_row_offset(const fms_attention_problem& problem, const fms_attention_args& args, int64_t b, int64_t h,
                     int64_t i) {
  const fms_strides& stride = problem.q;
  if (has(problem, FMS_RAGGED_Q)) {
    return h * stride.head + (args.cu_q[b] + i) * stride.seq;
  }
  return b * stride.batch + h * stride.head + i * stride.seq;
}

// Element offset of key (or value) row j of sequence b, kv head g.
int64_t kv_row_offset(const fms_attention_problem& problem, const fms_attention_args& args, const fms_strides& stride,
                      int64_t b, int64_t g, int64_t j) {
  if (has(problem, FMS_PAGED_KV)) {
    const int64_t page = args.block_table[b * problem.block_table_stride + j / problem.page_size];
    return page * stride.batch + g * stride.head + (j % problem.page_size) * stride.seq;
  }
  if (has(problem, FMS_RAGGED_KV)) {
    return g * stride.head + (args.cu_kv[b] + j) * stride.seq;
  }
  return b * stride.batch + g * stride.head + j * stride.seq;
}

using Vector = std::vector<double>;

Vector read_row(const void* array, fms_dtype dtype, int64_t offset, int64_t dim) {
  Vector row(static_cast<size_t>(dim));
  for (int64_t d = 0; d < dim; ++d) {
    row[d] = read_element(array, dtype, offset + d);
  }
  return row;
}

Vector read_scaled_row(const void* array, double scale, int64_t offset, int64_t dim) {
  Vector row(static_cast<size_t>(dim));
  for (int64_t d = 0; d < dim; ++d) {
    row[d] = scale * decode_e4m3(static_cast<const uint8_t*>(array)[offset + d]);
  }
  return row;
}

// All rows of one kv head of one sequence. A row that no query sees is decoded and then never used.
std::vector<Vector> read_kv_head(const fms_attention_problem& problem, const fms_attention_args& args,
                                 const void* array, const float* scales, const fms_strides& stride, int64_t dim,
                                 int64_t b, int64_t g) {
  std::vector<Vector> rows;
  for (int64_t j = 0; j < kv_length(problem, args, b); ++j) {
    const int64_t offset = kv_row_offset(problem, args, stride, b, g, j);
    rows.push_back(has(problem, FMS_KV_SCALES) ? read_scaled_row(array, scales[g], offset, dim)
                                               : read_row(array, problem.dtype, offset, dim));
  }
  return rows;
}

// The key that query row i is aligned to.
int64_t aligned_key(const fms_attention_problem& problem, const fms_attention_args& args, int64_t b, int64_t i) {
  return has(problem, FMS_TOP_LEFT) ? i : i + kv_length(problem, args, b) - q_length(problem, args, b);
}

// Written as differences: a window may be as large as int64 allows.
bool in_window(const fms_attention_problem& problem, int64_t i_aligned, int64_t j) {
  const bool left = problem.window_left < 0 || i_aligned - j <= problem.window_left;
  const bool right = problem.window_right < 0 || j - i_aligned <= problem.window_right;
  return left && right;
}

double bias_at(const void* bias, fms_dtype dtype, const fms_bias_strides& stride, int64_t b, int64_t h, int64_t i,
               int64_t j) {
  const int64_t entry = stride.group > 0 ? b / stride.group : b;
  return read_element(bias, dtype, entry * stride.batch + h * stride.head + i * stride.q + j * stride.kv);
}

bool mask_shows(const fms_attention_problem& problem, const fms_attention_args& args, int64_t b, int64_t h, int64_t i,
                int64_t j) {
  if (!has(problem, FMS_MASK)) {
    return true;
  }
  const fms_bias_strides& stride = problem.mask;
  const int64_t entry = stride.group > 0 ? b / stride.group : b;
  return args.mask[entry * stride.batch + h * stride.head + i * stride.q + j * stride.kv] != 0;
}

struct VisibleKey {
  int64_t j;
  double score;
};

struct Scores {
  std::vector<VisibleKey> keys;
  double magnitude = 0;  // AttentionOutputs::score_magnitude
};

Scores score_row(const fms_attention_problem& problem, const fms_attention_args& args,
                 const std::vector<Vector>& k_rows, int64_t b, int64_t h, int64_t i) {
  const int64_t kv_len = static_cast<int64_t>(k_rows.size());
  const int64_t i_aligned = aligned_key(problem, args, b, i);
  const int64_t first_key = has(problem, FMS_KV_STARTS) ? args.kv_starts[b] : 0;
  const Vector q = read_row(args.q, problem.dtype, q_row_offset(problem, args, b, h, i), problem.head_dim);
  Scores scores;
  for (int64_t j = 0; j < kv_len; ++j) {
    if (j < first_key || !in_window(problem, i_aligned, j) || !mask_shows(problem, args, b, h, i, j)) {
      continue;
    }
    double dot = 0;
    double dot_magnitude = 0;
    for (int64_t d = 0; d < problem.head_dim; ++d) {
      dot += q[d] * k_rows[j][d];
      dot_magnitude += std::abs(q[d] * k_rows[j][d]);
    }
    double score = problem.softmax_scale * dot;
    double magnitude = std::abs(problem.softmax_scale) * dot_magnitude;
    if (problem.softcap > 0) {
      score = problem.softcap * std::tanh(score / problem.softcap);
    }
    if (has(problem, FMS_BIAS)) {
      const double bias = bias_at(args.bias, problem.bias_dtype, problem.bias, b, h, i, j);
      score += bias;
      magnitude += std::abs(bias);
    }
    if (has(problem, FMS_BIAS2)) {
      const double bias = bias_at(args.bias2, problem.bias2_dtype, problem.bias2, b, h, i, j);
      score += bias;
      magnitude += std::abs(bias);
    }
    scores.keys.push_back({j, score});
    if (std::isfinite(magnitude)) {  // an infinite score has no rounding error
      scores.magnitude = std::max(scores.magnitude, magnitude);
    }
  }
  if (has(problem, FMS_SINKS) && std::isfinite(args.sinks[h])) {
    scores.magnitude += std::abs(static_cast<double>(args.sinks[h]));
  }
  return scores;
}

struct Row {
  Vector o;            // (value_dim)
  Vector o_magnitude;  // (value_dim)
  double lse;
};

Row filled_row(int64_t value_dim, double o, double lse) {
  const Vector values(static_cast<size_t>(value_dim), o);
  return {values, values, lse};
}

Row softmax_times_v(const std::vector<VisibleKey>& keys, const double* sink, const std::vector<Vector>& v_rows,
                    int64_t value_dim) {
  double largest_score = -kInfinity;
  for (const VisibleKey& key : keys) {
    if (std::isnan(key.score) || key.score == kInfinity) {
      return filled_row(value_dim, kNaN, kNaN);
    }
    largest_score = std::max(largest_score, key.score);
  }
  if (largest_score == -kInfinity) {  // no visible key, or none with any weight
    return filled_row(value_dim, 0.0, sink != nullptr ? *sink : -kInfinity);
  }
  // The sink takes part in the shift, so that neither it nor a score can overflow.
  const double shift = sink != nullptr ? std::max(largest_score, *sink) : largest_score;
  double weight_sum = sink != nullptr ? std::exp(*sink - shift) : 0.0;
  for (const VisibleKey& key : keys) {
    weight_sum += std::exp(key.score - shift);
  }
  Row row = filled_row(value_dim, 0.0, shift + std::log(weight_sum));
  for (const VisibleKey& key : keys) {
    const double weight = std::exp(key.score - shift) / weight_sum;
    for (int64_t d = 0; d < value_dim; ++d) {
      const double term = weight * v_rows[key.j][d];  // 0 * inf is NaN: a weight of 0 does not hide a non-finite v
      row.o[d] += term;
      row.o_magnitude[d] += std::abs(term);
    }
  }
  return row;
}

void write_row(const AttentionOutputs& outputs, int64_t row_index, int64_t value_dim, const Row& row,
               double score_magnitude) {
  const auto write_vector = [&](double* to, const Vector& from) {
    if (to != nullptr) {
      std::copy(from.begin(), from.end(), to + row_index * value_dim);
    }
  };
  write_vector(outputs.o, row.o);
  write_vector(outputs.o_magnitude, row.o_magnitude);
  if (outputs.lse != nullptr) {
    outputs.lse[row_index] = row.lse;
  }
  if (outputs.score_magnitude != nullptr) {
    outputs.score_magnitude[row_index] = score_magnitude;
  }
}

}  // namespace

void attention(const fms_attention_problem& problem, const fms_attention_args& args, const AttentionOutputs& outputs) {
  if (problem.batch == 0 || problem.q_len == 0) {
    return;
  }
  const int64_t group_size = problem.q_heads / problem.kv_heads;
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t g = 0; g < problem.kv_heads; ++g) {
      const std::vector<Vector> k_rows =
          read_kv_head(problem, args, args.k, args.k_scales, problem.k, problem.head_dim, b, g);
      const std::vector<Vector> v_rows =
          read_kv_head(problem, args, args.v, args.v_scales, problem.v, problem.value_dim, b, g);
      for (int64_t h = g * group_size; h < (g + 1) * group_size; ++h) {
        const double sink_value = has(problem, FMS_SINKS) ? args.sinks[h] : 0.0;
        const double* sink = has(problem, FMS_SINKS) ? &sink_value : nullptr;
        for (int64_t i = 0; i < q_length(problem, args, b); ++i) {
          const Scores scores = score_row(problem, args, k_rows, b, h, i);
          const Row row = softmax_times_v(scores.keys, sink, v_rows, problem.value_dim);
          const int64_t row_index = (b * problem.q_heads + h) * problem.q_len + i;
          write_row(outputs, row_index, problem.value_dim, row, scores.magnitude);
        }
      }
    }
  }
}

void merge(const fms_merge_problem& problem, const void* o_a, const float* lse_a, const void* o_b, const float* lse_b,
           double* o, double* lse) {
  const auto row_offset = [](const fms_strides& stride, int64_t b, int64_t h, int64_t i) {
    return b * stride.batch + h * stride.head + i * stride.seq;
  };
  int64_t row = 0;
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      for (int64_t i = 0; i < problem.len; ++i, ++row) {
        const double part_a = lse_a[row_offset(problem.lse_a, b, h, i)];
        const double part_b = lse_b[row_offset(problem.lse_b, b, h, i)];
        const double shift = std::max(part_a, part_b);
        lse[row] =
            shift == -kInfinity ? -kInfinity : shift + std::log(std::exp(part_a - shift) + std::exp(part_b - shift));
        for (int64_t d = 0; d < problem.head_dim; ++d) {
          // A part without weight is left out, not multiplied by zero: its o may hold anything.
          double value = 0;
          if (part_a != -kInfinity) {
            value +=
                std::exp(part_a - lse[row]) * read_element(o_a, problem.dtype, row_offset(problem.o_a, b, h, i) + d);
          }
          if (part_b != -kInfinity) {
            value +=
                std::exp(part_b - lse[row]) * read_element(o_b, problem.dtype, row_offset(problem.o_b, b, h, i) + d);
          }
          o[row * problem.head_dim + d] = value;
        }
      }
    }
  }
}

}  // namespace flashmoe::reference
