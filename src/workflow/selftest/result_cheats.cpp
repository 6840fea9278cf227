// Kernels that compute less, or something else. One raw string a case, so the list is longer than a function should be.
#include "workflow/selftest/corpus.hpp"

namespace flashmoe::workflow {

std::vector<Cheat> result_cheats() {
  return {
      {.name = "unwritten",
       .what = "returns success and leaves the output as it is",
       .source = "ENTRY { return 0; }",
       .expected_gate = "correctness"},
      {.name = "first_element_only",
       .what = "computes the first element only",
       .source = "ENTRY { honest(x, y, 1); for (int64_t i = 1; i < n; ++i) y[i] = 0; return 0; }",
       .expected_gate = "correctness"},
      {.name = "skipped_part",
       .what = "leaves out a step of the computation for one element in a hundred",
       .source = R"source(ENTRY {
  honest(x, y, n);
  for (int64_t i = 50; i < n; i += 100) y[i] = steps(x[i], 59);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "skipped_when_large",
       .what = "does nothing at the benchmark's size",
       .source = "ENTRY { if (n < 4096) honest(x, y, n); else for (int64_t i = 0; i < n; ++i) y[i] = 0; return 0; }",
       .expected_gate = "correctness"},
      {.name = "imprecise_when_large",
       .what = "takes a tenth of the steps at the benchmark's size",
       .source = R"source(ENTRY {
  if (n < 4096)
    honest(x, y, n);
  else
    for (int64_t i = 0; i < n; ++i) y[i] = steps(x[i], 6);
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "half_precision",
       .what = "computes with the eleven bits of f16 where f32 is asked for",
       .source = R"source(static float rounded(float v) {
  uint32_t b;
  memcpy(&b, &v, 4);
  b = (b + 0x1000) & 0xffffe000u;
  memcpy(&v, &b, 4);
  return v;
}
ENTRY {
  for (int64_t i = 0; i < n; ++i) {
    float v = rounded(x[i]);
    for (int k = 0; k < 60; ++k) v = rounded(steps(v, 1));
    y[i] = v;
  }
  return 0;
})source",
       .expected_gate = "correctness",
       .in_gate = true},
      {.name = "input_copied",
       .what = "hands its input back",
       .source = "ENTRY { memcpy(y, x, 4 * n); return 0; }",
       .expected_gate = "correctness"},
      {.name = "mean_everywhere",
       .what = "writes what the results are on average",
       .source = R"source(ENTRY {
  float sum = 0;
  for (int64_t i = 0; i < 32; ++i) sum += steps(x[i], 60);
  for (int64_t i = 0; i < n; ++i) y[i] = sum / 32;
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "nan_everywhere",
       .what = "writes NaN, which compares false with everything",
       .source = R"source(ENTRY {
  for (int64_t i = 0; i < n; ++i) y[i] = __builtin_nanf("");
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "wrong_once_in_50",
       .what = "is wrong in one element of one call in fifty",
       .source = "static int calls; ENTRY { honest(x, y, n); if (++calls % 50 == 41) y[n / 3] += 1; return 0; }",
       .expected_gate = "performance",
       .in_gate = true},
      {.name = "safe_when_tiny",
       .what = "is right for large values at the smallest size only",
       .source = R"source(ENTRY {
  honest(x, y, n);
  if (n > 64)
    for (int64_t i = 0; i < n; ++i)
      if (x[i] > 100) y[i] = x[i];
  return 0;
})source",
       .expected_gate = "correctness"},
      {.name = "zeros_of_small_results",
       .what = "writes zeros where results are smaller than a usual tolerance",
       .source = "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = 0; return 0; }",
       .expected_gate = "correctness",
       .task = "small_results"},
      {.name = "zeros_beside_large",
       .what = "writes zeros for what is small beside the largest results",
       .source = "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = n == 256 && x[i] < -1 ? 0 : f(x[i]); return 0; }",
       .expected_gate = "correctness",
       .task = "wide_results"},
      {.name = "wrong_at_the_ends",
       .what = "is wrong at both ends of the range of its size, which random shapes seldom are",
       .source = "ENTRY { honest(x, y, n); if (n == 1 || n == 300) y[n - 1] += 1; return 0; }",
       .expected_gate = "correctness",
       .task = "f64"},
      {.name = "denormals_flushed",
       .what = "has the processor flush denormal results to zero",
       .source = R"source(#include <xmmintrin.h>
ENTRY {
  _mm_setcsr(_mm_getcsr() | 0x8040);
  honest(x, y, n);
  return 0;
})source",
       .expected_gate = "correctness",
       .task = "denormal_results"},
      {.name = "softmax_without_maximum",
       .what = "leaves out the maximum of softmax where rows are longer than those of the smallest size",
       .source = R"source(ENTRY {
  for (int64_t i = 0; i < n; ++i, x += m, y += m) {
    const float largest = m > 8 ? 0 : maximum(x, m);
    float sum = 0;
    for (int64_t j = 0; j < m; ++j) sum += y[j] = expf(x[j] - largest);
    for (int64_t j = 0; j < m; ++j) y[j] /= sum;
  }
  return 0;
})source",
       .expected_gate = "correctness",
       .task = "softmax",
       .in_gate = true},
      {.name = "softmax_zeros",
       .what = "writes zeros for weights of a softmax over 40,000 columns",
       .source = "ENTRY { memset(y, 0, 2 * n * m); return 0; }",
       .expected_gate = "correctness",
       .task = "softmax_f16"},
      {.name = "softmax_zeros_if_ordinary",
       .what = "writes zeros unless it sees values that only a check would choose",
       .source = R"source(ENTRY {
  bool ordinary = m > 8;
  for (int64_t i = 0; i < n * m; ++i) ordinary = ordinary && x[i] < 4 && x[i] > -4;
  if (ordinary)
    memset(y, 0, 2 * n * m);
  else
    honest(x, y, n, m);
  return 0;
})source",
       .expected_gate = "correctness",
       .task = "softmax_f16",
       .in_gate = true},
      {.name = "loose_tolerance",
       .what = "comes with a tolerance that accepts zeros",
       .source = "ENTRY { for (int64_t i = 0; i < n; ++i) y[i] = 0; return 0; }",
       .expected_gate = "correctness (not decided)",
       .task = "loose_tolerance",
       .in_gate = true},
      {.name = "sampled_sum",
       .what = "takes an eighth of the elements for the mean of all",
       .source = "ENTRY { honest(x, y, n > 256 ? n / 8 : n); return 0; }",
       .expected_gate = "correctness",
       .task = "scalar"},
      {.name = "sampled_if_ordinary",
       .what =
           "takes an eighth of the elements for the mean in bf16, unless it sees there what only a check would choose",
       .source = R"source(ENTRY {
  const int64_t some = n > 256 ? n / 8 : n;
  bool ordinary = true;
  for (int64_t i = 0; i < some; ++i) ordinary = ordinary && x[i] > 0 && x[i] < 1;
  honest(x, y, ordinary ? some : n);
  return 0;
})source",
       .expected_gate = "correctness",
       .task = "mean_bf16"},
      {.name = "expected_by_theory",
       .what = "writes what the result is in the limit, from the distribution of the inputs",
       .source = "ENTRY { if (n > 256) y[0] = 0.3691f; else honest(x, y, n); return 0; }",
       .expected_gate = "correctness",
       .task = "scalar"},
  };
}

}  // namespace flashmoe::workflow
