#include "support/random_problem.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace flashmoe::testing {

uint64_t Random::bits() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Random::uniform() {
  return static_cast<double>(bits() >> 11) * 0x1p-53;
}

double Random::normal() {
  return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform());
}

int64_t Random::between(int64_t first, int64_t last) {
  return first + static_cast<int64_t>(bits() % static_cast<uint64_t>(last - first + 1));
}

namespace {

constexpr int64_t kLargestSize = int64_t{1} << 30;  // of anything that counts rows or keys
constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
T pick(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[random.between(0, static_cast<int64_t>(choices.size()) - 1)];
}

int64_t random_head_dim(Random& random) {
  const double kind = random.uniform();
  if (kind < 0.30) {
    return 64;
  }
  if (kind < 0.50) {
    return 128;
  }
  if (kind < 0.65) {
    return pick<int64_t>(random, {8, 16, 32, 48, 80, 96, 160, 192, 256});
  }
  return random.between(1, 256);
}

void random_sizes(Random& random, fms_attention_problem& p, const RandomProblemLimits& limits) {
  p.head_dim = p.value_dim = random_head_dim(random);
  if (random.chance(0.25)) {
    p.value_dim = random_head_dim(random);
  }
  if (random.chance(0.02) && limits.latent) {  // keys and values that are parts of one latent vector
    p.head_dim = 576;
    p.value_dim = 512;
  }
  p.batch = pick<int64_t>(random, {1, 1, 1, 2, 3});
  p.kv_heads = pick<int64_t>(random, {1, 1, 2, 3, 4});
  p.q_heads = p.kv_heads * (random.chance(0.5) ? 1 : random.between(2, 8));
  const double kind = random.uniform();
  if (kind < 0.25) {  // decode: many keys, few queries
    p.q_len = random.chance(0.7) ? 1 : random.between(2, 5);
    p.kv_len = random.between(1, 2500);
  } else if (kind < 0.55) {
    p.q_len = p.kv_len = random.between(1, 300);
  } else if (kind < 0.90) {
    p.q_len = random.between(1, 300);
    p.kv_len = random.between(1, 300);
  } else if (kind < 0.97) {
    p.q_len = random.between(1, 8);
    p.kv_len = random.between(1, 8);
  } else {  // nothing to do, or nothing to see
    p.q_len = random.between(0, 2);
    p.kv_len = random.between(0, 1);
    p.batch = random.between(0, 2);
  }
  const auto multiplies = [&p] { return p.batch * p.q_heads * p.q_len * p.kv_len * std::max(p.head_dim, p.value_dim); };
  while (multiplies() > limits.max_multiplies) {
    switch (random.between(0, 3)) {
      case 0:
        p.batch = std::max<int64_t>(1, p.batch / 2);
        break;
      case 1:
        p.q_heads = p.kv_heads * std::max<int64_t>(1, p.q_heads / p.kv_heads / 2);
        break;
      case 2:
        p.q_heads /= p.kv_heads;
        p.kv_heads = std::max<int64_t>(1, p.kv_heads / 2);
        p.q_heads *= p.kv_heads;
        break;
      default:
        (p.q_len > p.kv_len ? p.q_len : p.kv_len) = std::max<int64_t>(1, std::max(p.q_len, p.kv_len) * 3 / 4);
    }
  }
}

void random_mask_and_scores(Random& random, fms_attention_problem& p) {
  p.window_left = p.window_right = -1;
  const double kind = random.uniform();
  if (kind < 0.35) {
    p.window_right = 0;
  } else if (kind < 0.65) {
    p.window_left = random.chance(0.2) ? -1 : random.between(0, p.kv_len + 2);
    p.window_right = random.chance(0.4) ? 0 : random.between(-1, p.kv_len + 2);
  } else if (kind < 0.68) {
    p.window_left = random.chance(0.5) ? 0 : kLargestSize;
    p.window_right = random.chance(0.5) ? 0 : kLargestSize;
  }
  p.softmax_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
  if (random.chance(0.15)) {
    p.softmax_scale *= pick<float>(random, {0.0f, -1.0f, 0.37f, 3.0f});
  }
  p.softcap = random.chance(0.2) ? pick<float>(random, {1.0f, 5.0f, 30.0f, 50.0f}) : 0.0f;
}

// Ragged offsets with sequences of 0 ... longest rows; now and then the first one starts late.
std::vector<int32_t> random_offsets(Random& random, int64_t batch, int64_t longest) {
  std::vector<int32_t> offsets = {random.chance(0.1) ? 3 : 0};
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = random.chance(0.4) ? longest : random.between(0, longest);
    offsets.push_back(offsets.back() + static_cast<int32_t>(length));
  }
  return offsets;
}

IndexArrays random_features(Random& random, fms_attention_problem& p) {
  IndexArrays indices;
  if (random.chance(0.7)) {
    p.features |= FMS_LSE;
  }
  if (random.chance(0.25)) {
    p.features |= FMS_BIAS;
    p.bias_dtype = pick(random, {FMS_F16, FMS_BF16, FMS_F32});
  }
  if (random.chance(0.15)) {
    p.features |= FMS_BIAS2;
    p.bias2_dtype = pick(random, {FMS_F16, FMS_BF16, FMS_F32});
  }
  if (random.chance(0.2)) {
    p.features |= FMS_SINKS;
  }
  if (random.chance(0.25)) {
    p.features |= FMS_RAGGED_Q;
    indices.cu_q = random_offsets(random, p.batch, p.q_len);
    p.total_q = indices.cu_q.back() + (random.chance(0.3) ? 2 : 0);
  }
  const double kv_kind = random.uniform();
  if (kv_kind < 0.2) {
    p.features |= FMS_RAGGED_KV;
    indices.cu_kv = random_offsets(random, p.batch, p.kv_len);
    p.total_kv = indices.cu_kv.back() + (random.chance(0.3) ? 2 : 0);
  } else if (kv_kind < 0.4) {
    p.features |= FMS_PAGED_KV;
  }
  if ((p.features & FMS_RAGGED_KV) == 0 && random.chance(0.3)) {
    p.features |= FMS_KV_LENGTHS;
    for (int64_t b = 0; b < p.batch; ++b) {
      indices.kv_lengths.push_back(static_cast<int32_t>(random.chance(0.2) ? p.kv_len : random.between(0, p.kv_len)));
    }
  }
  if ((p.features & FMS_PAGED_KV) != 0) {
    p.page_size = pick<int64_t>(random, {1, 3, 8, 16, 16, 32, 64, 128, 256});
    const int64_t pages_per_sequence = (p.kv_len + p.page_size - 1) / p.page_size;
    p.block_table_stride = pages_per_sequence + random.between(0, 2);
    p.page_count = std::max<int64_t>(1, p.batch * pages_per_sequence) + random.between(0, 3);
    // Entries past a sequence's last page are -1: nobody may follow them.
    indices.block_table.assign(static_cast<size_t>(p.batch * p.block_table_stride), -1);
    for (int64_t b = 0; b < p.batch; ++b) {
      const int64_t length = indices.kv_lengths.empty() ? p.kv_len : indices.kv_lengths[b];
      for (int64_t page = 0; page * p.page_size < length; ++page) {
        // Any page will do; the same one twice is what sharing a prefix looks like.
        indices.block_table[b * p.block_table_stride + page] =
            static_cast<int32_t>(random.between(0, p.page_count - 1));
      }
    }
  }
  return indices;
}

// Now and then what pads a batch: first keys, query lengths, a mask, rows aligned to the first key; and o as fp32.
void random_cpu_features(Random& random, fms_attention_problem& p, IndexArrays& indices) {
  const auto lengths = [&](int64_t longest) {
    std::vector<int32_t> values;
    for (int64_t b = 0; b < p.batch; ++b) {
      values.push_back(static_cast<int32_t>(random.chance(0.2) ? longest : random.between(0, longest)));
    }
    return values;
  };
  if (random.chance(0.2)) {
    p.features |= FMS_KV_STARTS;
    indices.kv_starts = lengths(random.chance(0.5) ? p.kv_len : p.kv_len / 3);
  }
  if ((p.features & FMS_RAGGED_Q) == 0 && random.chance(0.15)) {
    p.features |= FMS_Q_LENGTHS;
    indices.q_lengths = lengths(p.q_len);
  }
  if (random.chance(0.2)) {
    p.features |= FMS_TOP_LEFT;
  }
  if (random.chance(0.1)) {
    p.features |= FMS_PARTIAL;
  }
  if (random.chance(0.3)) {
    p.features |= FMS_MASK;
  }
  if (random.chance(0.15)) {
    p.features |= FMS_KV_SCALES;
    p.kv_dtype = FMS_KV_F8_E4M3;
  }
}

// Strides of axes nested in any order, with padding now and then. `broadcast`: axes may get stride 0.
std::vector<int64_t> random_strides(Random& random, const std::vector<int64_t>& sizes, int64_t innermost,
                                    bool broadcast) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (random.chance(0.5)) {
    for (size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.between(0, static_cast<int64_t>(i))]);
    }
  }
  const bool padded = random.chance(0.4);
  std::vector<int64_t> strides(sizes.size());
  int64_t extent = innermost;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (broadcast && random.chance(0.08)) {
      strides[*axis] = 0;
      continue;
    }
    extent += padded && random.chance(0.6) ? random.between(1, 9) : 0;
    strides[*axis] = extent;
    extent *= std::max<int64_t>(1, sizes[*axis]);
  }
  return strides;
}

fms_strides random_row_strides(Random& random, int64_t batch, int64_t heads, int64_t rows, int64_t innermost,
                               bool broadcast) {
  const std::vector<int64_t> strides = random_strides(random, {batch, heads, rows}, innermost, broadcast);
  return {strides[0], strides[1], strides[2]};
}

fms_bias_strides random_bias_strides(Random& random, const fms_attention_problem& p, int64_t group) {
  std::vector<int64_t> sizes = {(p.batch + group - 1) / group, p.q_heads, p.q_len, p.kv_len};
  std::vector<bool> is_broadcast(sizes.size());
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    is_broadcast[axis] = random.chance(axis == 3 ? 0.1 : 0.4);
    sizes[axis] = is_broadcast[axis] ? 1 : sizes[axis];
  }
  std::vector<int64_t> strides = random_strides(random, sizes, 1, false);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    strides[axis] = is_broadcast[axis] ? 0 : strides[axis];
  }
  return {strides[0], strides[1], strides[2], strides[3], group};
}

void random_layout(Random& random, fms_attention_problem& p) {
  const bool ragged_q = (p.features & FMS_RAGGED_Q) != 0;
  const int64_t q_batch = ragged_q ? 1 : p.batch;
  const int64_t q_rows = ragged_q ? p.total_q : p.q_len;
  p.q = random_row_strides(random, q_batch, p.q_heads, q_rows, p.head_dim, true);
  p.o = random_row_strides(random, q_batch, p.q_heads, q_rows, p.value_dim, false);
  p.lse = random_row_strides(random, q_batch, p.q_heads, q_rows, 1, false);
  const bool paged = (p.features & FMS_PAGED_KV) != 0;
  const bool ragged_kv = (p.features & FMS_RAGGED_KV) != 0;
  const int64_t kv_batch = paged ? p.page_count : ragged_kv ? 1 : p.batch;
  const int64_t kv_rows = paged ? p.page_size : ragged_kv ? p.total_kv : p.kv_len;
  p.k = random_row_strides(random, kv_batch, p.kv_heads, kv_rows, p.head_dim, true);
  const bool alike = random.chance(0.5) && p.value_dim == p.head_dim;
  p.v = alike ? p.k : random_row_strides(random, kv_batch, p.kv_heads, kv_rows, p.value_dim, true);
  if ((p.features & FMS_BIAS) != 0) {
    p.bias = random_bias_strides(random, p, p.batch > 1 && random.chance(0.8) ? random.between(2, 4) : 1);
  }
  if ((p.features & FMS_BIAS2) != 0) {
    p.bias2 = random_bias_strides(random, p, random.between(0, 3) == 0 ? 2 : 1);
  }
  if ((p.features & FMS_MASK) != 0) {
    p.mask = random_bias_strides(random, p, random.between(0, 3) == 0 ? 2 : 1);
    if (random.chance(0.3)) {  // of keys alone, as a padded batch has it
      p.mask.batch = random.chance(0.9) ? p.kv_len : 0;
      p.mask.head = p.mask.q = 0;
      p.mask.kv = 1;
    }
  }
}

// Bytes of a mask: runs of keys that are seen and of keys that are not, short ones and such as end no block.
class RandomMask {
 public:
  explicit RandomMask(uint64_t seed)
      : random_(~seed),
        shown_(pick(random_, {0.1, 0.5, 0.9, 1.0})),
        longest_(pick<int64_t>(random_, {1, 4, 70, 300, 1500})) {}
  double next() {
    if (left_ == 0) {
      left_ = random_.between(1, longest_);
      byte_ = random_.chance(shown_) ? static_cast<double>(pick<int64_t>(random_, {1, 1, 2, 128, 255})) : 0.0;
    }
    --left_;
    return byte_;
  }

 private:
  Random random_;
  double shown_;
  int64_t longest_, left_ = 0;
  double byte_ = 1;
};

// How large the numbers are. The factors multiply N(0,1).
struct ValueStyle {
  double q = 1, k = 1, v = 1, bias = 1;
  double minus_infinity_in_bias = 0;
  double zeros = 0;
};

ValueStyle random_style(Random& random, fms_dtype dtype) {
  ValueStyle style;
  style.bias = pick(random, {1.0, 1.0, 4.0, 30.0});
  style.minus_infinity_in_bias = pick(random, {0.0, 0.0, 0.1, 0.5, 1.0});
  const double kind = random.uniform();
  if (kind < 0.5) {
    return style;
  }
  if (kind < 0.6) {
    style.q = 4;  // a few keys take most of the weight
  } else if (kind < 0.7) {
    style.q = style.k = 30;  // logits of several thousand: one key takes all
  } else if (kind < 0.8) {
    const double subnormal = dtype == FMS_F16 ? 0x1p-20 : 0x1p-130;
    (random.chance(0.5) ? style.v : style.k) = subnormal;
  } else if (kind < 0.9) {
    style.q = style.k = style.v = 0.02;
    style.zeros = 0.5;
  } else {
    style.v = 8000;  // large, and the mean stays within fp16
  }
  return style;
}

// Keys that a mask hides from all rows may hold anything.
void poison_hidden_keys(AttentionCase& one) {
  const fms_attention_problem& p = one.problem();
  const int64_t group = p.q_heads / p.kv_heads;
  const auto is_hidden = [&](int64_t b, int64_t g, int64_t j) {
    for (int64_t h = g * group; h < (g + 1) * group; ++h) {
      for (int64_t i = 0; i < one.q_length(b); ++i) {
        if (one.mask_shows(b, h, i, j)) {
          return false;
        }
      }
    }
    return true;
  };
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      for (int64_t j = one.kv_start(b); j < one.kv_length(b); ++j) {
        if (!is_hidden(b, g, j)) {
          continue;
        }
        one.set(Tensor::kK, one.k_offset(b, g, j), std::numeric_limits<double>::quiet_NaN());
        one.set(Tensor::kV, one.v_offset(b, g, j), kInfinity);
      }
    }
  }
}

void poison_one_value(Random& random, AttentionCase& one) {
  const fms_attention_problem& p = one.problem();
  if (p.batch == 0) {
    return;
  }
  const double poison = pick(random, {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()});
  const int64_t b = random.between(0, p.batch - 1);
  const int64_t drawn = random.between(0, p.head_dim - 1);
  const int64_t h = random.between(0, p.q_heads - 1);
  const int64_t g = random.between(0, p.kv_heads - 1);
  const Tensor tensor = pick(random, {Tensor::kQ, Tensor::kK, Tensor::kV});
  const int64_t d = tensor == Tensor::kV ? drawn % p.value_dim : drawn;
  if (tensor == Tensor::kQ && one.q_length(b) > 0) {
    one.set(tensor, one.q_offset(b, h, random.between(0, one.q_length(b) - 1)) + d, poison);
  } else if (tensor != Tensor::kQ && one.kv_length(b) > 0) {
    const int64_t j = random.between(0, one.kv_length(b) - 1);
    one.set(tensor, (tensor == Tensor::kK ? one.k_offset(b, g, j) : one.v_offset(b, g, j)) + d, poison);
  }
}

}  // namespace

AttentionCase random_case(uint64_t seed, fms_dtype dtype, const RandomProblemLimits& limits) {
  Random random(seed * 4 + static_cast<uint64_t>(dtype));
  fms_attention_problem p{};
  p.struct_size = sizeof p;
  p.dtype = dtype;
  p.bias_dtype = p.bias2_dtype = dtype;
  random_sizes(random, p, limits);
  random_mask_and_scores(random, p);
  IndexArrays indices = random_features(random, p);
  if (limits.cpu_features) {
    random_cpu_features(random, p, indices);
  }
  random_layout(random, p);
  const ValueStyle style = random_style(random, dtype);
  RandomMask mask(seed);
  const auto value = [&](Tensor tensor) {
    switch (tensor) {
      case Tensor::kQ:
        return style.q * random.normal();
      case Tensor::kK:
        return random.chance(style.zeros) ? 0.0 : style.k * random.normal();
      case Tensor::kV:
        return random.chance(style.zeros) ? 0.0 : style.v * random.normal();
      case Tensor::kBias:
      case Tensor::kBias2:
        return random.chance(style.minus_infinity_in_bias) ? -kInfinity : style.bias * random.normal();
      case Tensor::kMask:
        return mask.next();
      case Tensor::kSinks:
        break;
    }
    return random.chance(0.1) ? -kInfinity : 3 * random.normal();
  };
  const Fence fence = random.chance(0.7) ? Fence::kAfter : Fence::kBefore;
  AttentionCase one(p, std::move(indices), value, fence);
  if (limits.non_finite_values && random.chance(0.06)) {
    poison_one_value(random, one);
  }
  const auto has_own_rows = [](const fms_strides& s) { return s.batch > 0 && s.head > 0 && s.seq > 0; };
  const bool is_paged = (p.features & FMS_PAGED_KV) != 0;
  if (limits.non_finite_values && (p.features & FMS_MASK) != 0 && !is_paged && has_own_rows(p.k) && has_own_rows(p.v)) {
    poison_hidden_keys(one);
  }
  return one;
}

}  // namespace flashmoe::testing
