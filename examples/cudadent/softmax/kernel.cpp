// Softmax over rows, three passes that are all vector code: maximum, exp and sum, scale.
#include <cudadent/kernel.h>

#include <bit>
#include <initializer_list>
#include <limits>

namespace {

// exp(x) for x <= 0, within 2 units in the last place. Branch-free, so that a loop over it becomes vector code;
// NaN stays NaN, and what would underflow becomes 1e-38.
inline float exp_of_negative(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const float shifted = clamped * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the fraction is rounded away
  const float n = shifted - 12582912.0f;
  const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // clamped - n ln 2, in two parts
  float p = 1.0f / 5040;
  for (const float c : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) p = p * r + c;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) << 23;  // n lies in the low bits of `shifted`
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
}

void softmax_row(const float* __restrict x, float* __restrict y, int64_t cols) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < cols; ++j) largest = x[j] > largest ? x[j] : largest;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < cols; ++j) {
    y[j] = exp_of_negative(x[j] - largest);
    sum += y[j];
  }
  const float scale = 1.0f / sum;
#pragma omp simd
  for (int64_t j = 0; j < cols; ++j) y[j] *= scale;
}

}  // namespace

extern "C" int softmax(const cudadent_call* call) {
  const cudadent_tensor* x = cudadent_find_tensor(call, "x");
  const cudadent_tensor* y = cudadent_find_tensor(call, "y");
  const int64_t rows = x->shape[0];
  const int64_t cols = x->shape[1];
  for (int64_t i = 0; i < rows; ++i) {
    softmax_row(static_cast<const float*>(x->data) + i * cols, static_cast<float*>(y->data) + i * cols, cols);
  }
  return 0;
}
