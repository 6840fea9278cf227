#include "fuzzed_problem.hpp"

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace flashmoe::fuzz {
namespace {

using testing::IndexArrays;

// The largest tensor, in elements, and the most work that is still run.
constexpr __int128 kMaxElements = 1 << 17;
constexpr __int128 kMaxMultiplies = 100'000;

bool has(const fms_attention_problem& p, fms_feature feature) {
  return (p.features & feature) != 0;
}

// (B,H,S,D), (B,S,H,D) or rows further apart than they are long.
fms_strides draw_strides(FuzzedDataProvider& bytes, int64_t heads, int64_t rows, int64_t innermost) {
  const int64_t padding = bytes.ConsumeBool() ? bytes.ConsumeIntegralInRange<int64_t>(0, 5) : 0;
  const int64_t row = innermost + padding;
  return bytes.ConsumeBool() ? fms_strides{heads * rows * row, rows * row, row}
                             : fms_strides{heads * rows * row, row, heads * row};
}

void draw_sizes(FuzzedDataProvider& bytes, fms_attention_problem& p) {
  constexpr fms_dtype dtypes[] = {FMS_F16, FMS_BF16, FMS_F32};
  p.dtype = bytes.PickValueInArray(dtypes);
  p.bias_dtype = bytes.PickValueInArray(dtypes);
  p.bias2_dtype = bytes.PickValueInArray(dtypes);
  p.features = bytes.ConsumeIntegral<uint8_t>();
  if (has(p, FMS_RAGGED_KV)) {
    p.features &= ~static_cast<uint32_t>(FMS_KV_LENGTHS | FMS_PAGED_KV);  // else most inputs would end at the check
  }
  p.batch = bytes.ConsumeIntegralInRange<int64_t>(0, 3);
  p.kv_heads = bytes.ConsumeIntegralInRange<int64_t>(1, 3);
  p.q_heads = p.kv_heads * bytes.ConsumeIntegralInRange<int64_t>(1, 5);
  p.q_len = bytes.ConsumeIntegralInRange<int64_t>(0, 40);
  p.kv_len = bytes.ConsumeIntegralInRange<int64_t>(0, 140);
  p.head_dim = bytes.ConsumeIntegralInRange<int64_t>(1, bytes.ConsumeBool() ? 256 : 70);
  p.value_dim = bytes.ConsumeBool() ? p.head_dim : bytes.ConsumeIntegralInRange<int64_t>(1, 70);
  p.window_left = bytes.ConsumeBool() ? -1 : bytes.ConsumeIntegralInRange<int64_t>(-1, 150);
  p.window_right = bytes.ConsumeBool() ? 0 : bytes.ConsumeIntegralInRange<int64_t>(-1, 150);
  p.softmax_scale = 1 / std::sqrt(static_cast<float>(p.head_dim));
  p.softcap = bytes.ConsumeIntegralInRange<int>(0, 3) == 0 ? 20.0f : 0.0f;
}

std::vector<int32_t> draw_lengths(FuzzedDataProvider& bytes, const fms_attention_problem& p, fms_feature feature,
                                  int64_t longest) {
  std::vector<int32_t> values;
  for (int64_t b = 0; has(p, feature) && b < p.batch; ++b) {
    values.push_back(bytes.ConsumeIntegralInRange<int32_t>(0, static_cast<int32_t>(longest)));
  }
  return values;
}

// After everything else, so that what older inputs of the corpus mean stays.
void draw_padding(FuzzedDataProvider& bytes, fms_attention_problem& p, IndexArrays& indices) {
  constexpr uint32_t features = FMS_MASK | FMS_KV_SCALES | FMS_KV_STARTS | FMS_Q_LENGTHS | FMS_TOP_LEFT | FMS_PARTIAL;
  p.features |= bytes.ConsumeIntegral<uint16_t>() & features;
  if (has(p, FMS_RAGGED_Q)) {
    p.features &= ~static_cast<uint32_t>(FMS_Q_LENGTHS);
  }
  indices.kv_starts = draw_lengths(bytes, p, FMS_KV_STARTS, p.kv_len);
  indices.q_lengths = draw_lengths(bytes, p, FMS_Q_LENGTHS, p.q_len);
  p.kv_dtype = FMS_KV_F8_E4M3;
  const auto broadcast = has(p, FMS_MASK) ? bytes.ConsumeIntegral<uint8_t>() : uint8_t{0};
  const bool per_row = (broadcast & 1) != 0;
  p.mask.kv = (broadcast & 8) != 0 ? 3 : 1;
  p.mask.q = per_row ? p.kv_len * p.mask.kv : 0;
  p.mask.head = (broadcast & 2) != 0 ? p.kv_len * p.mask.kv * (per_row ? p.q_len : 1) : 0;
  p.mask.batch = (broadcast & 4) != 0 ? p.kv_len : 0;
  p.mask.group = (broadcast & 16) != 0 ? 2 : 0;
}

IndexArrays draw_indices(FuzzedDataProvider& bytes, fms_attention_problem& p) {
  IndexArrays indices;
  const auto offsets = [&](int64_t longest) {
    std::vector<int32_t> values = {0};
    for (int64_t b = 0; b < p.batch; ++b) {
      values.push_back(values.back() + bytes.ConsumeIntegralInRange<int32_t>(0, static_cast<int32_t>(longest)));
    }
    return values;
  };
  if (has(p, FMS_RAGGED_Q)) {
    indices.cu_q = offsets(p.q_len);
    p.total_q = indices.cu_q.back();
  }
  if (has(p, FMS_RAGGED_KV)) {
    indices.cu_kv = offsets(p.kv_len);
    p.total_kv = indices.cu_kv.back();
  }
  indices.kv_lengths = draw_lengths(bytes, p, FMS_KV_LENGTHS, p.kv_len);
  if (has(p, FMS_PAGED_KV)) {
    p.page_size = bytes.ConsumeIntegralInRange<int64_t>(1, 40);
    p.page_count = bytes.ConsumeIntegralInRange<int64_t>(1, 12);
    p.block_table_stride = (p.kv_len + p.page_size - 1) / p.page_size + bytes.ConsumeIntegralInRange<int64_t>(0, 1);
    for (int64_t entry = 0; entry < p.batch * p.block_table_stride; ++entry) {
      indices.block_table.push_back(static_cast<int32_t>(entry * 5 % p.page_count));
    }
  }
  return indices;
}

void draw_layout(FuzzedDataProvider& bytes, fms_attention_problem& p) {
  const int64_t q_rows = has(p, FMS_RAGGED_Q) ? p.total_q : p.q_len;
  const int64_t kv_rows = has(p, FMS_PAGED_KV) ? p.page_size : has(p, FMS_RAGGED_KV) ? p.total_kv : p.kv_len;
  p.q = draw_strides(bytes, p.q_heads, q_rows, p.head_dim);
  p.o = draw_strides(bytes, p.q_heads, q_rows, p.value_dim);
  p.lse = draw_strides(bytes, p.q_heads, q_rows, 1);
  p.k = draw_strides(bytes, p.kv_heads, kv_rows, p.head_dim);
  p.v = draw_strides(bytes, p.kv_heads, kv_rows, p.value_dim);
  const auto broadcast = bytes.ConsumeIntegral<uint8_t>();
  const bool per_batch = (broadcast & 1) != 0, per_head = (broadcast & 2) != 0, per_row = (broadcast & 4) != 0;
  p.bias.kv = p.bias2.kv = 1;
  p.bias2.group = (broadcast & 16) != 0 ? 3 : 1;
  p.bias2.batch = (broadcast & 32) != 0 ? p.kv_len : 0;
  p.bias.q = per_row ? p.kv_len : 0;
  p.bias.head = per_head ? p.kv_len * (per_row ? p.q_len : 1) : 0;
  p.bias.group = (broadcast & 8) != 0 ? 2 : 0;
  p.bias.batch = per_batch ? p.kv_len * (per_row ? p.q_len : 1) * (per_head ? p.q_heads : 1) : 0;
}

// Any 4 or 8 bytes of the description, whatever they mean there.
void overwrite_fields(FuzzedDataProvider& bytes, fms_attention_problem& p, fms_plan_options& options) {
  for (int count = bytes.ConsumeIntegralInRange<int>(0, 3); count > 0; --count) {
    const bool small_value = bytes.ConsumeBool();
    const int64_t value =
        small_value ? bytes.ConsumeIntegralInRange<int64_t>(-3, 300) : bytes.ConsumeIntegral<int64_t>();
    if (bytes.ConsumeIntegralInRange<int>(0, 7) == 0) {
      const auto at = 4 * bytes.ConsumeIntegralInRange<size_t>(0, sizeof options / 4 - 1);
      std::memcpy(reinterpret_cast<char*>(&options) + at, &value, 4);
      continue;
    }
    // The four-byte fields come first, then everything is eight bytes wide (two floats share one of them).
    const auto word = bytes.ConsumeIntegralInRange<size_t>(0, sizeof p / 8 + 1);
    const size_t at = word < 4 ? 4 * word : 8 * (word - 2);
    std::memcpy(reinterpret_cast<char*>(&p) + at, &value, word < 4 ? 4 : 8);
  }
}

IndexArrays overwrite_entries(FuzzedDataProvider& bytes, IndexArrays indices) {
  std::vector<int32_t>* arrays[] = {&indices.cu_q,        &indices.cu_kv,     &indices.kv_lengths,
                                    &indices.block_table, &indices.kv_starts, &indices.q_lengths};
  for (int count = bytes.ConsumeIntegralInRange<int>(0, 2); count > 0; --count) {
    std::vector<int32_t>& array = *bytes.PickValueInArray(arrays);
    if (!array.empty()) {
      array[bytes.ConsumeIntegralInRange<size_t>(0, array.size() - 1)] =
          bytes.ConsumeBool() ? bytes.ConsumeIntegralInRange<int32_t>(-2, 150) : bytes.ConsumeIntegral<int32_t>();
    }
  }
  return indices;
}

bool offsets_are_valid(const std::vector<int32_t>& offsets, int64_t batch, int64_t longest, int64_t total) {
  if (static_cast<int64_t>(offsets.size()) != batch + 1 || offsets.front() < 0 || offsets.back() > total) {
    return false;
  }
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    const int64_t length = static_cast<int64_t>(offsets[b + 1]) - offsets[b];
    if (length < 0 || length > longest) {
      return false;
    }
  }
  return true;
}

}  // namespace

FuzzedProblem fuzzed_problem(const uint8_t* data, size_t size) {
  FuzzedDataProvider bytes(data, size);
  FuzzedProblem fuzzed;
  fms_attention_problem& p = fuzzed.problem;
  p.struct_size = sizeof p;
  fuzzed.isa = bytes.ConsumeIntegral<uint8_t>();
  fuzzed.values = bytes.ConsumeEnum<Values>();
  fuzzed.seed = bytes.ConsumeIntegral<uint16_t>();
  fuzzed.options.struct_size = sizeof fuzzed.options;
  fuzzed.options.threads = bytes.ConsumeIntegralInRange<int32_t>(0, 3);
  fuzzed.options.kv_splits = bytes.ConsumeIntegralInRange<int32_t>(0, 6);
  fuzzed.options.q_tile = bytes.ConsumeIntegralInRange<int32_t>(0, 40);
  draw_sizes(bytes, p);
  fuzzed.indices = draw_indices(bytes, p);
  draw_layout(bytes, p);
  draw_padding(bytes, p, fuzzed.indices);
  overwrite_fields(bytes, p, fuzzed.options);
  fuzzed.bad_indices = overwrite_entries(bytes, fuzzed.indices);
  return fuzzed;
}

bool indices_are_valid(const fms_attention_problem& p, const IndexArrays& indices) {
  if (has(p, FMS_RAGGED_Q) && !offsets_are_valid(indices.cu_q, p.batch, p.q_len, p.total_q)) {
    return false;
  }
  if (has(p, FMS_RAGGED_KV) && !offsets_are_valid(indices.cu_kv, p.batch, p.kv_len, p.total_kv)) {
    return false;
  }
  const auto lengths_are_valid = [&](fms_feature feature, const std::vector<int32_t>& lengths, int64_t longest) {
    const auto fits = [&](int32_t length) { return length >= 0 && length <= longest; };
    return !has(p, feature) || (static_cast<int64_t>(lengths.size()) == p.batch && std::ranges::all_of(lengths, fits));
  };
  if (!lengths_are_valid(FMS_KV_LENGTHS, indices.kv_lengths, p.kv_len) ||
      !lengths_are_valid(FMS_KV_STARTS, indices.kv_starts, p.kv_len) ||
      !lengths_are_valid(FMS_Q_LENGTHS, indices.q_lengths, p.q_len)) {
    return false;
  }
  if (has(p, FMS_PAGED_KV)) {
    if (static_cast<int64_t>(indices.block_table.size()) != p.batch * p.block_table_stride) {
      return false;
    }
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t length = has(p, FMS_KV_LENGTHS) ? indices.kv_lengths[b] : p.kv_len;
      for (int64_t page = 0; page * p.page_size < length; ++page) {
        const int32_t entry = indices.block_table[b * p.block_table_stride + page];
        if (entry < 0 || entry >= p.page_count) {
          return false;
        }
      }
    }
  }
  return true;
}

bool is_small(const fms_attention_problem& p) {
  const auto fits = [](std::initializer_list<__int128> sizes, std::initializer_list<__int128> strides) {
    __int128 elements = FMS_MAX_HEAD_DIM;
    for (auto size = sizes.begin(), stride = strides.begin(); size != sizes.end(); ++size, ++stride) {
      elements += std::max<__int128>(*size - 1, 0) * *stride;
    }
    return elements <= kMaxElements;
  };
  const int64_t q_batch = has(p, FMS_RAGGED_Q) ? 1 : p.batch;
  const int64_t q_rows = has(p, FMS_RAGGED_Q) ? p.total_q : p.q_len;
  const int64_t kv_batch = has(p, FMS_PAGED_KV) ? p.page_count : has(p, FMS_RAGGED_KV) ? 1 : p.batch;
  const int64_t kv_rows = has(p, FMS_PAGED_KV) ? p.page_size : has(p, FMS_RAGGED_KV) ? p.total_kv : p.kv_len;
  const fms_strides no_strides{};
  for (const fms_strides& stride : {p.q, p.o, has(p, FMS_LSE) ? p.lse : no_strides}) {
    if (!fits({q_batch, p.q_heads, q_rows}, {stride.batch, stride.head, stride.seq})) {
      return false;
    }
  }
  for (const fms_strides& stride : {p.k, p.v}) {
    if (!fits({kv_batch, p.kv_heads, kv_rows}, {stride.batch, stride.head, stride.seq})) {
      return false;
    }
  }
  // Fields of features that are off were not checked and may hold anything.
  if (has(p, FMS_PAGED_KV) && static_cast<__int128>(p.batch) * p.block_table_stride > kMaxElements) {
    return false;
  }
  for (const auto& [feature, bias] :
       {std::pair{FMS_BIAS, p.bias}, std::pair{FMS_BIAS2, p.bias2}, std::pair{FMS_MASK, p.mask}}) {
    if (has(p, feature) && !fits({p.batch, p.q_heads, p.q_len, p.kv_len}, {bias.batch, bias.head, bias.q, bias.kv})) {
      return false;
    }
  }
  // Sequences of nothing take time, too: judges visit them all.
  if (static_cast<__int128>(p.batch) * (p.q_heads + p.kv_heads) > kMaxElements) return false;
  return static_cast<__int128>(p.batch) * p.q_heads * p.q_len * p.kv_len * std::max(p.head_dim, p.value_dim) <=
         kMaxMultiplies;
}

}  // namespace flashmoe::fuzz
