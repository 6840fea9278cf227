// GPU tuning figures as data. No GPU has run these kernels: the figures are arithmetic on published ones, in clocks of
// an SM, and their source says so.
#pragma once

namespace flashmoe::plan {

struct CudaPolicy {
  // A tensor core product of 16 x 8 x 16 holds its pipe this long; an SM has 4 such pipes.
  double product_clocks = 16;
  int pipes_per_sm = 4;
  // Static tensor use of the main loops for tiles of 16, 32, 64 and 128 rows (docs/kernel-comparison.md): the smaller a
  // tile, the more instructions beside each product.
  double loop_share[4] = {0.66, 0.80, 0.93, 0.88};
  // What a warp reaches of that alone: barriers and the softmax's own chain show.
  double alone_share = 0.85;
  // Bytes an SM takes from L2 in a clock, and from DRAM while all SMs ask.
  double l2_bytes_per_clock = 32;
  double dram_bytes_per_clock = 2.5;
  // Problems up to this size are taken to be there.
  double l2_bytes = 32e6;
  // Work that something slower hides still takes power and ports: this share of it counts.
  double hidden_share = 0.1;
  // The launch.
  double fixed_clocks = 2200;
  // A CTA before its first and after its last block: the first loads' latency, storing the result.
  double cta_clocks = 800;
  // A block of keys: its barrier and what of a load's latency is not hidden.
  double block_clocks = 250;
  // Splits: storing a state, the fence and the counter; then reading each state back.
  double split_clocks = 1500;
  double state_clocks = 150;
  // With this many tiles for each SM the last wave's idle SMs do not matter, and keys are not split.
  int tiles_without_tail = 8;
  const char* source =
      "arithmetic: L4 58 SMs x 512 FMA x 2.04 GHz = 121 TFLOPS, hence 16 clocks a product; 300 GB/s / 2.04 GHz / 58 "
      "SMs = 2.5 bytes; latencies of the order published for Ampere and Ada; not measured";
};

inline constexpr CudaPolicy cuda_policy{};

}  // namespace flashmoe::plan
