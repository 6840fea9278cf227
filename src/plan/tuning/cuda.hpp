// GPU tuning figures as data. No GPU has run these kernels: the figures are arithmetic on published ones, in clocks of
// an SM, and their source says so.
#pragma once

namespace flashmoe::plan {

struct CudaPolicy {
  // A tensor core product of 16 x 8 x 16 holds its pipe this long; an SM has 4 such pipes.
  double product_clocks = 16;
  double pipes_per_sm = 4;
  // What a warp reaches of that alone: barriers and the softmax's own chain show.
  double alone_share = 0.8;
  // Bytes an SM takes from L2 in a clock.
  double l2_bytes_per_clock = 32;
  // Launch, the first loads' latency, storing the result.
  double fixed_clocks = 3000;
  // A block of keys: its barrier and what of a load's latency is not hidden.
  double block_clocks = 250;
  // Splits: storing a state, the fence and the counter; then reading each state back.
  double split_clocks = 1500;
  double state_clocks = 150;
  // A split has at least this many keys, unless it is forced.
  int least_split_keys = 32;
  const char* source =
      "arithmetic: L4 58 SMs x 512 FMA x 2.04 GHz = 121 TFLOPS, hence 16 clocks a product; latencies of the order "
      "published for Ampere and Ada; not measured";
};

inline constexpr CudaPolicy cuda_policy{};

}  // namespace flashmoe::plan
