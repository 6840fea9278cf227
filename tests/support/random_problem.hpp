// Seeded random problems over every feature of the C ABI, small enough that the oracle takes milliseconds.
#pragma once

#include <cstdint>

#include "support/attention_case.hpp"

namespace flashmoe::testing {

struct RandomProblemLimits {
  int64_t max_multiplies = 3'000'000;  // batch * q_heads * q_len * kv_len * the larger of head_dim and value_dim
  bool latent = true;                  // now and then head sizes beyond a GPU's 256
  bool cpu_features = true;            // now and then what a GPU does not run: masks, starts, query lengths, ...
  bool non_finite_values = true;       // now and then NaN or infinity in an input
};

// The same seed gives the same problem and data, on every machine.
AttentionCase random_case(uint64_t seed, fms_dtype dtype, const RandomProblemLimits& limits = {});

// splitmix64. The standard distributions differ between libraries; a seed must mean the same problem everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits();
  double uniform();  // [0, 1)
  double normal();
  int64_t between(int64_t first, int64_t last);  // both included
  bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t state_;
};

}  // namespace flashmoe::testing
