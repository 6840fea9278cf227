// What is right: o = softmax(q k^T / sqrt(D)) v in fp64, row by row. A row with NaN or +infinity among its scores is
// NaN, and so is one whose scores are all -infinity: 0 / 0.
#include <cudadent/kernel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "../cudadent/attention/half.hpp"

extern "C" int reference(const cudadent_call* call) {
  const cudadent_tensor* const q = cudadent_find_tensor(call, "q");
  const cudadent_tensor* const o = cudadent_find_tensor(call, "o");
  const int64_t heads = q->shape[0] * q->shape[1], S = q->shape[2], D = q->shape[3];
  const auto read = [&](const char* name) {
    const auto* const bits = static_cast<const uint16_t*>(cudadent_find_tensor(call, name)->data);
    std::vector<double> values(static_cast<size_t>(heads * S * D));
    std::transform(bits, bits + values.size(), values.begin(), decode_f16);
    return values;
  };
  const std::vector<double> queries = read("q"), keys = read("k"), values = read("v");
  const double scale = 1.0 / std::sqrt(static_cast<double>(D));
  std::vector<double> weights(static_cast<size_t>(S)), sums(static_cast<size_t>(D));
  for (int64_t row = 0; row < heads * S; ++row) {
    const int64_t head = row / S * S;  // its first row
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < S; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < D; ++d) dot += queries[row * D + d] * keys[(head + j) * D + d];
      weights[j] = scale * dot;
      largest = std::fmax(largest, weights[j]);
    }
    double total = 0;
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t j = 0; j < S; ++j) {
      const double weight = std::exp(weights[j] - largest);
      total += weight;
      for (int64_t d = 0; d < D; ++d) sums[d] += weight * values[(head + j) * D + d];
    }
    for (int64_t d = 0; d < D; ++d) static_cast<uint16_t*>(o->data)[row * D + d] = encode_f16(sums[d] / total);
  }
  return 0;
}
