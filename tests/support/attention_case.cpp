#include "support/attention_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "support/number_format.hpp"

namespace flashmoe::testing {
namespace {

constexpr uint8_t kInputPoison = 0xff;   // NaN in every format, -1 as an index
constexpr uint8_t kOutputCanary = 0xa5;  // a small finite number in every format

FencedBuffer fenced_indices(const std::vector<int32_t>& values, Fence fence) {
  FencedBuffer buffer(values.size() * sizeof(int32_t), fence, kInputPoison);
  if (!values.empty()) {
    std::memcpy(buffer.data(), values.data(), buffer.bytes());
  }
  return buffer;
}

// Elements from the first to the last one that a tensor with these sizes and strides (none negative) reaches.
int64_t extent(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides, int64_t innermost) {
  int64_t elements = innermost;
  for (auto size = sizes.begin(), stride = strides.begin(); size != sizes.end(); ++size, ++stride) {
    if (*size == 0) {
      return 0;
    }
    elements += (*size - 1) * *stride;
  }
  return elements;
}

// Calls visit(b, head, row) for every row that exists on one side.
template <typename Length, typename Visit>
void for_each_row(int64_t batch, int64_t heads, Length&& length, Visit&& visit) {
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = 0; row < length(b); ++row) {
        visit(b, h, row);
      }
    }
  }
}

void print_indices(std::ostream& out, const char* name, const std::vector<int32_t>& values) {
  if (values.empty()) {
    return;
  }
  out << ' ' << name << "={";
  for (size_t i = 0; i < values.size(); ++i) {
    out << (i == 0 ? "" : ",") << values[i];
  }
  out << '}';
}

// The nearest; what is not finite is NaN.
uint8_t to_e4m3(double value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (!std::isfinite(value)) {
    return sign | 0x7f;
  }
  const double magnitude = std::min(std::abs(value), 448.0);
  const int exponent = std::max(magnitude > 0 ? std::ilogb(magnitude) : -6, -6);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));  // of 1/8, up to 16
  return sign | static_cast<uint8_t>(((exponent + 6) << 3) + steps);
}

int64_t term_offset(const fms_bias_strides& stride, int64_t b, int64_t h, int64_t i, int64_t j) {
  return b / std::max<int64_t>(stride.group, 1) * stride.batch + h * stride.head + i * stride.q + j * stride.kv;
}

std::ostream& operator<<(std::ostream& out, const fms_strides& stride) {
  return out << '{' << stride.batch << ',' << stride.head << ',' << stride.seq << '}';
}

}  // namespace

AttentionCase::AttentionCase(const fms_attention_problem& problem, IndexArrays indices, const ValueSource& values,
                             Fence fence)
    : problem_(problem), indices_(std::move(indices)) {
  const fms_attention_problem& p = problem_;
  // Sized by what the problem declares (all of total_q, all pages), also where no sequence uses it.
  const int64_t q_batch = has(FMS_RAGGED_Q) ? 1 : p.batch;
  const int64_t q_rows = has(FMS_RAGGED_Q) ? p.total_q : p.q_len;
  const int64_t kv_batch = has(FMS_PAGED_KV) ? p.page_count : has(FMS_RAGGED_KV) ? 1 : p.batch;
  const int64_t kv_rows = has(FMS_PAGED_KV) ? p.page_size : has(FMS_RAGGED_KV) ? p.total_kv : p.kv_len;
  const int64_t q_elements = extent({q_batch, p.q_heads, q_rows}, {p.q.batch, p.q.head, p.q.seq}, p.head_dim);
  const int64_t o_elements = extent({q_batch, p.q_heads, q_rows}, {p.o.batch, p.o.head, p.o.seq}, p.value_dim);
  const int64_t k_elements = extent({kv_batch, p.kv_heads, kv_rows}, {p.k.batch, p.k.head, p.k.seq}, p.head_dim);
  const int64_t v_elements = extent({kv_batch, p.kv_heads, kv_rows}, {p.v.batch, p.v.head, p.v.seq}, p.value_dim);
  const size_t width = element_bytes(p.dtype);
  q_ = FencedBuffer(q_elements * width, fence, kInputPoison);
  const size_t kv_width = has(FMS_KV_SCALES) ? 1 : width;
  k_ = FencedBuffer(k_elements * kv_width, fence, kInputPoison);
  v_ = FencedBuffer(v_elements * kv_width, fence, kInputPoison);
  if (has(FMS_KV_SCALES)) {
    k_scales_ = FencedBuffer(p.kv_heads * sizeof(float), fence, kInputPoison);
    v_scales_ = FencedBuffer(p.kv_heads * sizeof(float), fence, kInputPoison);
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      k_scales_.as<float>()[g] = 0.7f + 0.3f * static_cast<float>(g);
      v_scales_.as<float>()[g] = 1.3f / static_cast<float>(g + 1);
    }
  }
  o_ = FencedBuffer(o_elements * element_bytes(output_dtype()), fence, kOutputCanary);
  if (has(FMS_LSE)) {
    const int64_t lse_elements = extent({q_batch, p.q_heads, q_rows}, {p.lse.batch, p.lse.head, p.lse.seq}, 1);
    lse_ = FencedBuffer(lse_elements * sizeof(float), fence, kOutputCanary);
  }
  const auto term_buffer = [&](const fms_bias_strides& s, size_t bytes) {
    const int64_t group = std::max<int64_t>(s.group, 1), entries = (p.batch + group - 1) / group;
    const int64_t elements = extent({entries, p.q_heads, p.q_len, p.kv_len}, {s.batch, s.head, s.q, s.kv}, 1);
    return FencedBuffer(elements * bytes, fence, kInputPoison);
  };
  if (has(FMS_BIAS)) {
    bias_ = term_buffer(p.bias, element_bytes(p.bias_dtype));
  }
  if (has(FMS_BIAS2)) {
    bias2_ = term_buffer(p.bias2, element_bytes(p.bias2_dtype));
  }
  if (has(FMS_MASK)) {
    mask_ = term_buffer(p.mask, 1);
  }
  if (has(FMS_SINKS)) {
    sinks_ = FencedBuffer(p.q_heads * sizeof(float), fence, kInputPoison);
  }
  cu_q_ = fenced_indices(indices_.cu_q, fence);
  cu_kv_ = fenced_indices(indices_.cu_kv, fence);
  kv_lengths_ = fenced_indices(indices_.kv_lengths, fence);
  block_table_ = fenced_indices(indices_.block_table, fence);
  kv_starts_ = fenced_indices(indices_.kv_starts, fence);
  q_lengths_ = fenced_indices(indices_.q_lengths, fence);
  fill_inputs(values);
}

void AttentionCase::fill_inputs(const ValueSource& values) {
  const fms_attention_problem& p = problem_;
  const auto fill_row = [&](Tensor tensor, int64_t offset) {
    for (int64_t d = 0; d < (tensor == Tensor::kV ? p.value_dim : p.head_dim); ++d) {
      set(tensor, offset + d, values(tensor));
    }
  };
  for_each_row(
      p.batch, p.q_heads, [&](int64_t b) { return q_length(b); },
      [&](int64_t b, int64_t h, int64_t i) {
        fill_row(Tensor::kQ, q_offset(b, h, i));
        for (int64_t j = kv_start(b); has(FMS_BIAS) && j < kv_length(b); ++j) {
          set(Tensor::kBias, bias_offset(b, h, i, j), values(Tensor::kBias));
        }
        for (int64_t j = kv_start(b); has(FMS_BIAS2) && j < kv_length(b); ++j) {
          set(Tensor::kBias2, bias2_offset(b, h, i, j), values(Tensor::kBias2));
        }
        for (int64_t j = kv_start(b); has(FMS_MASK) && j < kv_length(b); ++j) {
          set(Tensor::kMask, mask_offset(b, h, i, j), values(Tensor::kMask));
        }
      });
  for_each_row(
      p.batch, p.kv_heads, [&](int64_t b) { return kv_length(b); },
      [&](int64_t b, int64_t g, int64_t j) {
        if (j < kv_start(b)) {
          return;
        }
        fill_row(Tensor::kK, k_offset(b, g, j));
        fill_row(Tensor::kV, v_offset(b, g, j));
      });
  for (int64_t h = 0; has(FMS_SINKS) && h < p.q_heads; ++h) {
    set(Tensor::kSinks, h, values(Tensor::kSinks));
  }
}

fms_attention_args AttentionCase::args() const {
  fms_attention_args args{};
  args.struct_size = sizeof args;
  args.q = q_.data();
  args.k = k_.data();
  args.v = v_.data();
  args.o = o_.data();
  args.lse = has(FMS_LSE) ? lse_.as<float>() : nullptr;
  args.bias = bias_.data();
  args.bias2 = bias2_.data();
  args.k_scales = has(FMS_KV_SCALES) ? k_scales_.as<float>() : nullptr;
  args.v_scales = has(FMS_KV_SCALES) ? v_scales_.as<float>() : nullptr;
  args.mask = has(FMS_MASK) ? mask_.as<uint8_t>() : nullptr;
  args.sinks = sinks_.as<float>();
  args.cu_q = has(FMS_RAGGED_Q) ? cu_q_.as<int32_t>() : nullptr;
  args.cu_kv = has(FMS_RAGGED_KV) ? cu_kv_.as<int32_t>() : nullptr;
  args.kv_lengths = has(FMS_KV_LENGTHS) ? kv_lengths_.as<int32_t>() : nullptr;
  args.block_table = has(FMS_PAGED_KV) ? block_table_.as<int32_t>() : nullptr;
  args.kv_starts = has(FMS_KV_STARTS) ? kv_starts_.as<int32_t>() : nullptr;
  args.q_lengths = has(FMS_Q_LENGTHS) ? q_lengths_.as<int32_t>() : nullptr;
  return args;
}

std::vector<std::span<uint8_t>> AttentionCase::buffers() const {
  return {q_.payload(),     k_.payload(),          v_.payload(),           o_.payload(),
          lse_.payload(),   bias_.payload(),       sinks_.payload(),       cu_q_.payload(),
          cu_kv_.payload(), kv_lengths_.payload(), block_table_.payload(), bias2_.payload()};
}

int64_t AttentionCase::q_length(int64_t b) const {
  if (has(FMS_Q_LENGTHS)) {
    return indices_.q_lengths[b];
  }
  return has(FMS_RAGGED_Q) ? indices_.cu_q[b + 1] - indices_.cu_q[b] : problem_.q_len;
}

int64_t AttentionCase::kv_length(int64_t b) const {
  if (has(FMS_KV_LENGTHS)) {
    return indices_.kv_lengths[b];
  }
  return has(FMS_RAGGED_KV) ? indices_.cu_kv[b + 1] - indices_.cu_kv[b] : problem_.kv_len;
}

int64_t AttentionCase::kv_start(int64_t b) const {
  return has(FMS_KV_STARTS) ? indices_.kv_starts[b] : 0;
}

bool AttentionCase::is_visible(int64_t b, int64_t i, int64_t j) const {
  const int64_t distance = j - (has(FMS_TOP_LEFT) ? i : i + kv_length(b) - q_length(b));
  return j >= kv_start(b) && j < kv_length(b) && (problem_.window_left < 0 || -distance <= problem_.window_left) &&
         (problem_.window_right < 0 || distance <= problem_.window_right);
}

bool AttentionCase::mask_shows(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return !has(FMS_MASK) || mask_.as<uint8_t>()[mask_offset(b, h, i, j)] != 0;
}

int64_t AttentionCase::q_side_offset(const fms_strides& stride, int64_t b, int64_t h, int64_t i) const {
  return has(FMS_RAGGED_Q) ? h * stride.head + (indices_.cu_q[b] + i) * stride.seq
                           : b * stride.batch + h * stride.head + i * stride.seq;
}

int64_t AttentionCase::kv_side_offset(const fms_strides& stride, int64_t b, int64_t g, int64_t j) const {
  if (has(FMS_PAGED_KV)) {
    const int64_t page = indices_.block_table[b * problem_.block_table_stride + j / problem_.page_size];
    return page * stride.batch + g * stride.head + j % problem_.page_size * stride.seq;
  }
  return has(FMS_RAGGED_KV) ? g * stride.head + (indices_.cu_kv[b] + j) * stride.seq
                            : b * stride.batch + g * stride.head + j * stride.seq;
}

int64_t AttentionCase::q_offset(int64_t b, int64_t h, int64_t i) const {
  return q_side_offset(problem_.q, b, h, i);
}
int64_t AttentionCase::o_offset(int64_t b, int64_t h, int64_t i) const {
  return q_side_offset(problem_.o, b, h, i);
}
int64_t AttentionCase::lse_offset(int64_t b, int64_t h, int64_t i) const {
  return q_side_offset(problem_.lse, b, h, i);
}
int64_t AttentionCase::k_offset(int64_t b, int64_t g, int64_t j) const {
  return kv_side_offset(problem_.k, b, g, j);
}
int64_t AttentionCase::v_offset(int64_t b, int64_t g, int64_t j) const {
  return kv_side_offset(problem_.v, b, g, j);
}

int64_t AttentionCase::bias_offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return term_offset(problem_.bias, b, h, i, j);
}
int64_t AttentionCase::bias2_offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return term_offset(problem_.bias2, b, h, i, j);
}
int64_t AttentionCase::mask_offset(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return term_offset(problem_.mask, b, h, i, j);
}

FencedBuffer& AttentionCase::buffer(Tensor tensor) {
  switch (tensor) {
    case Tensor::kQ:
      return q_;
    case Tensor::kK:
      return k_;
    case Tensor::kV:
      return v_;
    case Tensor::kBias:
      return bias_;
    case Tensor::kBias2:
      return bias2_;
    case Tensor::kMask:
      return mask_;
    case Tensor::kSinks:
      break;
  }
  return sinks_;
}

void AttentionCase::set(Tensor tensor, int64_t offset, double value) {
  if (tensor == Tensor::kMask) {
    mask_.as<uint8_t>()[offset] = static_cast<uint8_t>(value);
    return;
  }
  if (has(FMS_KV_SCALES) && (tensor == Tensor::kK || tensor == Tensor::kV)) {
    buffer(tensor).as<uint8_t>()[offset] = to_e4m3(value);
    return;
  }
  const fms_dtype dtype = tensor == Tensor::kBias    ? problem_.bias_dtype
                          : tensor == Tensor::kBias2 ? problem_.bias2_dtype
                          : tensor == Tensor::kSinks ? FMS_F32
                                                     : problem_.dtype;
  store(buffer(tensor).data(), dtype, offset, value);
}

double AttentionCase::q_value(int64_t offset) const {
  return load(q_.data(), problem_.dtype, offset);
}
double AttentionCase::o_value(int64_t offset) const {
  return load(o_.data(), output_dtype(), offset);
}
float AttentionCase::lse_value(int64_t offset) const {
  return static_cast<float>(load(lse_.data(), FMS_F32, offset));
}

std::vector<uint8_t> AttentionCase::output_bytes() const {
  std::vector<uint8_t> bytes(o_.payload().begin(), o_.payload().end());
  bytes.insert(bytes.end(), lse_.payload().begin(), lse_.payload().end());
  return bytes;
}

void AttentionCase::reset_outputs() {
  std::ranges::fill(o_.payload(), kOutputCanary);
  std::ranges::fill(lse_.payload(), kOutputCanary);
}

std::optional<std::string> AttentionCase::stray_write() const {
  std::vector<uint8_t> o_is_ours(o_.bytes(), 1), lse_is_ours(lse_.bytes(), 1);
  const size_t width = element_bytes(output_dtype());
  for_each_row(
      problem_.batch, problem_.q_heads, [&](int64_t b) { return q_length(b); },
      [&](int64_t b, int64_t h, int64_t i) {
        std::fill_n(o_is_ours.begin() + o_offset(b, h, i) * width, problem_.value_dim * width, 0);
        if (has(FMS_LSE)) {
          std::fill_n(lse_is_ours.begin() + lse_offset(b, h, i) * sizeof(float), sizeof(float), 0);
        }
      });
  const auto stray_in = [](const FencedBuffer& buffer, const std::vector<uint8_t>& is_ours, const char* name) {
    std::optional<std::string> stray;
    for (size_t byte = 0; byte < buffer.bytes() && !stray; ++byte) {
      if (is_ours[byte] && buffer.payload()[byte] != kOutputCanary) {
        stray = std::string("padding of ") + name + " was written at byte " + std::to_string(byte);
      }
    }
    return stray;
  };
  for (const FencedBuffer* one :
       {&q_, &k_, &v_, &o_, &lse_, &bias_, &bias2_, &mask_, &sinks_, &k_scales_, &v_scales_}) {
    if (!one->slack_is_intact()) {
      return "memory before or after a tensor was written";
    }
  }
  const auto in_o = stray_in(o_, o_is_ours, "o");
  return in_o ? in_o : stray_in(lse_, lse_is_ours, "lse");
}

std::string AttentionCase::describe() const {
  const fms_attention_problem& p = problem_;
  std::ostringstream out;
  out.precision(9);
  out << "dtype=" << dtype_name(p.dtype) << " features=";
  const std::pair<fms_feature, const char*> names[] = {{FMS_LSE, "LSE"},
                                                       {FMS_BIAS, "BIAS"},
                                                       {FMS_SINKS, "SINKS"},
                                                       {FMS_RAGGED_Q, "RAGGED_Q"},
                                                       {FMS_RAGGED_KV, "RAGGED_KV"},
                                                       {FMS_KV_LENGTHS, "KV_LENGTHS"},
                                                       {FMS_PAGED_KV, "PAGED_KV"},
                                                       {FMS_BIAS2, "BIAS2"},
                                                       {FMS_MASK, "MASK"},
                                                       {FMS_KV_STARTS, "KV_STARTS"},
                                                       {FMS_Q_LENGTHS, "Q_LENGTHS"},
                                                       {FMS_TOP_LEFT, "TOP_LEFT"},
                                                       {FMS_KV_SCALES, "KV_SCALES"},
                                                       {FMS_PARTIAL, "PARTIAL"}};
  for (const auto& [feature, name] : names) {
    out << (has(feature) ? name : "") << (has(feature) ? "|" : "");
  }
  out << "0 batch=" << p.batch << " q_heads=" << p.q_heads << " kv_heads=" << p.kv_heads << " q_len=" << p.q_len
      << " kv_len=" << p.kv_len << " head_dim=" << p.head_dim << " value_dim=" << p.value_dim << " q=" << p.q
      << " k=" << p.k << " v=" << p.v << " o=" << p.o << " lse=" << p.lse << " softmax_scale=" << p.softmax_scale
      << " softcap=" << p.softcap << " window_left=" << p.window_left << " window_right=" << p.window_right;
  const auto describe_term = [&](const char* name, const fms_bias_strides& s) {
    out << ' ' << name << "={" << s.batch << ',' << s.head << ',' << s.q << ',' << s.kv << ',' << s.group << '}';
  };
  if (has(FMS_BIAS)) {
    out << " bias_dtype=" << dtype_name(p.bias_dtype);
    describe_term("bias", p.bias);
  }
  if (has(FMS_BIAS2)) {
    out << " bias2_dtype=" << dtype_name(p.bias2_dtype);
    describe_term("bias2", p.bias2);
  }
  if (has(FMS_MASK)) {
    describe_term("mask", p.mask);
  }
  out << " total_q=" << p.total_q << " total_kv=" << p.total_kv << " page_size=" << p.page_size
      << " page_count=" << p.page_count << " block_table_stride=" << p.block_table_stride;
  print_indices(out, "cu_q", indices_.cu_q);
  print_indices(out, "cu_kv", indices_.cu_kv);
  print_indices(out, "kv_lengths", indices_.kv_lengths);
  print_indices(out, "block_table", indices_.block_table);
  print_indices(out, "kv_starts", indices_.kv_starts);
  print_indices(out, "q_lengths", indices_.q_lengths);
  return out.str();
}

}  // namespace flashmoe::testing
