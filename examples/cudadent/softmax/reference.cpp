// What is right, in double.
#include <cudadent/kernel.h>

#include <algorithm>
#include <cmath>
#include <limits>

extern "C" int reference(const cudadent_call* call) {
  const cudadent_tensor* x = cudadent_find_tensor(call, "x");
  const cudadent_tensor* y = cudadent_find_tensor(call, "y");
  const int64_t cols = x->shape[1];
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    const float* in = static_cast<const float*>(x->data) + i * cols;
    float* out = static_cast<float*>(y->data) + i * cols;
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < cols; ++j) largest = std::max<double>(largest, in[j]);
    double sum = 0;
    for (int64_t j = 0; j < cols; ++j) sum += std::exp(in[j] - largest);
    for (int64_t j = 0; j < cols; ++j) out[j] = static_cast<float>(std::exp(in[j] - largest) / sum);
  }
  return 0;
}
