// Honest kernels with awkward results: tiny ones, one, none, integers, mostly zeros, ... One raw string a case, so the
// list is longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> honest_tasks() {
  constexpr const char* plain = "ENTRY { honest(x, y, n, m); return 0; }";
  return {
      {.name = "honest_small_results",
       .what = "computes results of the size 1e-10",
       .source = plain,
       .task = "small_results"},
      {.name = "honest_denormals",
       .what = "computes results that are denormal",
       .source = plain,
       .task = "denormal_results"},
      {.name = "honest_wide_results",
       .what = "has results from 1e-9 to 1e9, each of them right",
       .source = plain,
       .task = "wide_results"},
      {.name = "honest_softmax",
       .what = "computes a softmax over 40,000 columns",
       .source = R"source(ENTRY {
  for (int64_t i = 0; i < n; ++i, x += m, y += m) {
    const float largest = maximum(x, m);
    float sum = 0;
    for (int64_t j = 0; j < m; j += 256) {
      float part = 0;
      for (int64_t k = j; k < m && k < j + 256; ++k) part += y[k] = expf(x[k] - largest);
      sum += part;
    }
    for (int64_t j = 0; j < m; ++j) y[j] /= sum;
  }
  return 0;
})source",
       .task = "softmax"},
      {.name = "honest_f16",
       .what = "stores a softmax over 40,000 columns as f16, where the weights are denormal",
       .source = plain,
       .task = "softmax_f16"},
      {.name = "honest_two_outputs",
       .what = "writes a softmax and the logarithms of its sums",
       .source = "ENTRY { sums<float>(x, (float*)call->tensors[2].data, n, m); honest(x, y, n, m); return 0; }",
       .task = "two_outputs"},
      {.name = "honest_scalar", .what = "computes a single number", .source = plain, .task = "scalar"},
      {.name = "honest_atomic_sum",
       .what = "adds up with atomics, in another order every time",
       .source = R"source(ENTRY {
  float sum = 0;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t i = 0; i < n; i += 64) {
    const float part = sum_of(x + i, n - i < 64 ? n - i : 64);
#pragma omp atomic
    sum += part;
  }
  y[0] = sum / n;
  return 0;
})source",
       .task = "scalar",
       .in_gate = true,
       .threads = 2,
       .flags = {"-fopenmp"}},
      {.name = "honest_mean_bf16",
       .what = "stores the mean of many numbers in bf16",
       .source = plain,
       .task = "mean_bf16"},
      {.name = "honest_histogram",
       .what = "counts with atomics into sixteen integers",
       .source = R"source(ENTRY {
  for (int i = 0; i < 16; ++i) y[i] = 0;
#pragma omp parallel
  {
    int64_t mine[16]{};
#pragma omp for nowait
    for (int64_t i = 0; i < n; ++i) ++mine[bucket(x[i])];
    for (int i = 0; i < 16; ++i) __atomic_fetch_add(y + i, mine[i], __ATOMIC_RELAXED);
  }
  return 0;
})source",
       .task = "histogram",
       .threads = 2,
       .flags = {"-fopenmp"}},
      {.name = "honest_sparse",
       .what = "computes results that are zero nearly everywhere",
       .source = plain,
       .task = "sparse",
       .in_gate = true},
      {.name = "honest_constant", .what = "computes what is 1 for every number", .source = plain, .task = "constant"},
      {.name = "honest_copy",
       .what = "copies its input, as it is asked to",
       .source = "ENTRY { memcpy(y, x, 4 * n); return 0; }",
       .task = "copy"},
      {.name = "honest_integers", .what = "writes integers", .source = plain, .task = "integers"},
      {.name = "honest_bytes", .what = "writes zeros and ones into bytes", .source = plain, .task = "bytes"},
      {.name = "honest_f64", .what = "computes in double precision", .source = plain, .task = "f64"},
      {.name = "honest_bf16", .what = "stores bf16", .source = plain, .task = "bf16"},
      {.name = "honest_strided",
       .what = "leaves the padding between its rows alone",
       .source = plain,
       .task = "strided"},
      {.name = "honest_empty", .what = "computes one element, two, or none", .source = plain, .task = "maybe_empty"},
      {.name = "honest_against_python",
       .what = "is judged by a reference and timed against a baseline in Python",
       .source = plain,
       .task = "python",
       .in_gate = true},
  };
}

}  // namespace flashmoe::workflow
