// What is right: o = softmax(q k^T / sqrt(D)) v and its log-sum-exp in fp64, row by row. It can also be wrong on
// purpose: call->variant names one of the hypotheses of cudadent.toml, and the gate finds out which one a kernel
// matches.
#include <cudadent/kernel.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "half.hpp"

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

struct Attention {
  explicit Attention(const cudadent_call* call)
      : q(cudadent_find_tensor(call, "q")),
        k(cudadent_find_tensor(call, "k")),
        v(cudadent_find_tensor(call, "v")),
        o(cudadent_find_tensor(call, "o")),
        lse(cudadent_find_tensor(call, "lse")),
        scores(cudadent_find_tensor(call, "scores")),
        weights(cudadent_find_tensor(call, "weights")),
        variant(call->variant ? call->variant : ""),
        B(q->shape[0]),
        H(q->shape[1]),
        S(q->shape[2]),
        D(q->shape[3]),
        causal(cudadent_param_or(call, "causal", 0) != 0) {
    if (is("causal_inverted")) causal = !causal;
  }

  bool is(std::string_view name) const { return variant == name; }

  // Element (b, h, i, d) of a (B, H, S, D) tensor, or where a kernel with the named mistake would look for it.
  int64_t place(const cudadent_tensor* t, int64_t b, int64_t h, int64_t i, int64_t d) const {
    if (is("swapped_layout")) return ((b * S + i) * H + h) * D + d;  // as if it were (B, S, H, D)
    const bool is_kv = t == k || t == v;
    if (is("wrong_stride") && is_kv)
      return (((b * H + h) * S * D) + i * S + d) % (B * H * S * D);  // rows S apart, not D
    if (is("transposed_keys") && t == k) return ((b * H + h) * S * D) + d * S + i;
    return b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + d * t->stride[3];
  }

  double read(const cudadent_tensor* t, int64_t b, int64_t h, int64_t i, int64_t d) const {
    return decode_f16(static_cast<const uint16_t*>(t->data)[place(t, b, h, i, d)]);
  }

  bool visible(int64_t i, int64_t j) const {
    if (!causal) return true;
    if (is("mask_shift_plus")) return j <= i + 1;
    if (is("mask_shift_minus")) return j <= i - 1;
    if (is("mask_flipped")) return j >= i;
    return j <= i;
  }

  void row(int64_t b, int64_t h, int64_t i) const {
    const double scale = is("missing_scale") ? 1.0 : 1.0 / std::sqrt(static_cast<double>(D));
    std::vector<double> p(static_cast<size_t>(S), -infinity);  // scores, then weights
    double largest = -infinity;
    bool undefined = false;  // NaN or +inf among the scores: the whole row is NaN
    for (int64_t j = 0; j < S; ++j) {
      if (!visible(i, j)) continue;
      double dot = 0;
      for (int64_t d = 0; d < D; ++d) dot += read(q, b, h, i, d) * read(k, b, h, j, d);
      p[j] = scale * dot;
      undefined = undefined || std::isnan(p[j]) || p[j] == infinity;
      largest = std::fmax(largest, p[j]);
    }
    write_stage(scores, b, h, i, p);
    double sum = 0;
    for (double& weight : p) {
      weight = undefined ? nan_value : largest == -infinity ? 0 : std::exp(weight - largest);
      sum += weight;
    }
    const double divisor = is("unnormalised") || sum == 0 ? 1 : sum;
    for (double& weight : p) weight /= divisor;
    write_stage(weights, b, h, i, p);
    for (int64_t d = 0; d < D; ++d) {
      double value = 0;
      for (int64_t j = 0; j < S; ++j) {
        if (visible(i, j) && sum != 0) value += p[j] * read(v, b, h, j, d);  // no key counts: 0, also beside inf
      }
      static_cast<uint16_t*>(o->data)[place(o, b, h, i, d)] = encode_f16(value);
    }
    const int64_t lse_place = b * lse->stride[0] + h * lse->stride[1] + i * lse->stride[2];
    static_cast<float*>(lse->data)[lse_place] = static_cast<float>(sum == 0 ? -infinity : largest + std::log(sum));
  }

  // Stages are for the diagnosis; a caller may leave them out.
  void write_stage(const cudadent_tensor* t, int64_t b, int64_t h, int64_t i, const std::vector<double>& values) const {
    if (!t || !t->data) return;
    for (int64_t j = 0; j < S; ++j) {
      const int64_t at = b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3];
      static_cast<float*>(t->data)[at] = static_cast<float>(values[j]);
    }
  }

  const cudadent_tensor *q, *k, *v, *o, *lse, *scores, *weights;
  std::string_view variant;
  int64_t B, H, S, D;
  bool causal;
};

}  // namespace

extern "C" int reference(const cudadent_call* call) {
  const Attention attention(call);
  for (int64_t b = 0; b < attention.B; ++b) {
    for (int64_t h = 0; h < attention.H; ++h) {
      for (int64_t i = 0; i < attention.S; ++i) attention.row(b, h, i);
    }
  }
  return 0;
}
