// What to beat: the formula as one writes it down, with the library's exp.
#include <cudadent/kernel.h>

#include <algorithm>
#include <cmath>

extern "C" int three_loops(const cudadent_call* call) {
  const cudadent_tensor* x = cudadent_find_tensor(call, "x");
  const cudadent_tensor* y = cudadent_find_tensor(call, "y");
  const int64_t cols = x->shape[1];
  for (int64_t i = 0; i < x->shape[0]; ++i) {
    const float* in = static_cast<const float*>(x->data) + i * cols;
    float* out = static_cast<float*>(y->data) + i * cols;
    const float largest = *std::max_element(in, in + cols);
    float sum = 0;
    for (int64_t j = 0; j < cols; ++j) sum += out[j] = std::exp(in[j] - largest);
    for (int64_t j = 0; j < cols; ++j) out[j] /= sum;
  }
  return 0;
}
