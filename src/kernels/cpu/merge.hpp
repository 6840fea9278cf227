// Combining two partial results by their log-sum-exp; every step in fp32, one row at a time.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cpu/registry.hpp"
#include "kernels/cpu/team.hpp"
#include "kernels/cpu/types.hpp"
#include "support/float_environment.hpp"

namespace flashmoe::cpu {
namespace {

struct MergeWeights {
  float a, b, lse;
};

// -inf on one side gives that side the weight 0, on both sides 0 and -inf; NaN or +inf makes the row NaN.
inline MergeWeights merge_weights(float lse_a, float lse_b) {
  const float top = lse_a >= lse_b ? lse_a : lse_b;
  if (top == -__builtin_inff() && lse_a == lse_b) return {0.0F, 0.0F, top};
  const float a = std::exp(lse_a - top);
  const float b = std::exp(lse_b - top);
  const float sum = a + b;
  return {a / sum, b / sum, top + std::log(sum)};
}

template <class V, class T>
inline void merge_row(const T* o_a, const T* o_b, T* o, int64_t dim, const MergeWeights& weights, bool has_a,
                      bool has_b) {
  using F = typename V::F;
  for (int64_t d = 0; d < dim; d += V::width) {
    const auto n = static_cast<int>(dim - d < V::width ? dim - d : V::width);
    const auto part = [&](const T* from, float weight, bool has_weight) {
      if (!has_weight) return V::zero();  // whatever it holds
      return V::mul(n == V::width ? V::load_as(from + d) : V::load_as(from + d, n), V::set1(weight));
    };
    const F sum = V::add(part(o_a, weights.a, has_a), part(o_b, weights.b, has_b));
    if (n == V::width) {
      V::store_as(o + d, sum);
    } else {
      V::store_as(o + d, sum, n);
    }
  }
}

template <class V>
inline void merge_states(const fms_merge_problem& p, const plan::MergeArgs& args) {
  const auto at = [](const fms_strides& s, int64_t b, int64_t h, int64_t i) {
    return b * s.batch + h * s.head + i * s.seq;
  };
  visit_dtype(p.dtype, [&](auto element) {
    using T = decltype(element);
    // Below this many elements a parallel region costs more than it brings.
    constexpr int64_t parallel_elements = 1 << 16;
    const bool is_parallel = p.batch * p.heads * p.len * p.head_dim > parallel_elements;
    [[maybe_unused]] const int threads = is_parallel ? team_size(max_team()) : 1;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
      const DefaultFloatEnvironment environment;
#pragma omp for collapse(3)
      for (int64_t b = 0; b < p.batch; ++b) {
        for (int64_t h = 0; h < p.heads; ++h) {
          for (int64_t i = 0; i < p.len; ++i) {
            const float lse_a = args.lse_a[at(p.lse_a, b, h, i)];
            const float lse_b = args.lse_b[at(p.lse_b, b, h, i)];
            const MergeWeights weights = merge_weights(lse_a, lse_b);
            merge_row<V>(static_cast<const T*>(args.o_a) + at(p.o_a, b, h, i),
                         static_cast<const T*>(args.o_b) + at(p.o_b, b, h, i),
                         static_cast<T*>(args.o) + at(p.o, b, h, i), p.head_dim, weights, lse_a != -__builtin_inff(),
                         lse_b != -__builtin_inff());
            args.lse[at(p.lse, b, h, i)] = weights.lse;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace flashmoe::cpu
