#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "vgpu/mutants/corpus.hpp"

namespace flashmoe::vgpu::corpus {
namespace {

using Size = std::size_t;

void block_sums(Memory& m, Size block, Size first) {
  for (Size b = 0; b * block < m.in.size(); ++b) {
    float sum = 0;
    for (Size i = 0; i < block; ++i) sum += m.in[b * block + i];
    m.out[first + b] = sum;
  }
}

void product(Memory& m, Size rows) {  // of mma_*: A rows x 16, B given as 8 rows of 16
  for (Size r = 0; r < rows; ++r) {
    for (Size c = 0; c < 8; ++c) {
      float sum = 0;
      for (Size k = 0; k < 16; ++k) sum += m.in[r * 16 + k] * m.in[256 + c * 16 + k];
      m.out[r * 8 + c] = sum;
    }
  }
}

void hand_over(Memory& m) {  // flag, acquire_release
  for (Size t = 0; t < 64; ++t) m.out[t] = m.in[t] * 2.0f;
  for (Size t = 0; t < 64; ++t) m.out[64 + t] = m.out[63 - t] + 1.0f;
}

void softmax_rows(Memory& m, Size rows) {
  for (Size r = 0; r < rows; ++r) {
    const float* const row = m.in.data() + r * 64;
    const float most = *std::max_element(row, row + 64);
    float sum = 0;
    for (Size i = 0; i < 64; ++i) sum += std::exp(row[i] - most);
    for (Size i = 0; i < 64; ++i) m.out[r * 64 + i] = std::exp(row[i] - most) / sum;
  }
}

void attention_rows(Memory& m, Size keys) {
  const float *const k = m.in.data() + 8 * 32, *const v = k + keys * 32;
  for (Size q = 0; q < 8; ++q) {
    std::vector<double> weight(keys);
    double sum = 0;
    for (Size j = 0; j < keys; ++j) {
      double score = 0;
      for (Size d = 0; d < 32; ++d)
        score += static_cast<double>(m.in[q * 32 + d]) * static_cast<double>(k[j * 32 + d]) * 0.125;
      weight[j] = score;
    }
    const double most = *std::max_element(weight.begin(), weight.end());
    for (double& w : weight) sum += w = std::exp(w - most);
    for (Size d = 0; d < 32; ++d) {
      double result = 0;
      for (Size j = 0; j < keys; ++j) result += weight[j] * static_cast<double>(v[j * 32 + d]);
      m.out[q * 32 + d] = static_cast<float>(result / sum);
    }
  }
}

unsigned bin(float x) {
  return static_cast<unsigned>(static_cast<int>(x + 8.0f));
}

std::vector<Case> make() {
  std::vector<Case> list;
  const auto add = [&](Case c) { list.push_back(std::move(c)); };
  add({"copy", {4}, {128}, 500, 500, 500, 0, [](Memory& m) { m.out = m.in; }});
  add({"saxpy", {2}, {96}, 700, 700, 700, 0, [](Memory& m) {
         for (Size i = 0; i < 700; ++i) m.out[i] = 2.0f * m.in[i] + 1.0f;
       }});
  add({"transpose", {2, 2}, {32, 8}, 64, 4096, 4096, 0, [](Memory& m) {
         for (Size i = 0; i < 4096; ++i) m.out[i % 64 * 64 + i / 64] = m.in[i];
       }});
  add({"reduce_tree", {3}, {256}, 768, 768, 3, 0, [](Memory& m) { block_sums(m, 256, 0); }});
  add({"reduce_shuffle", {3}, {256}, 768, 768, 3, 0, [](Memory& m) { block_sums(m, 256, 0); }});
  add({"last_block", {5}, {128}, 640, 640, 6, 0, [](Memory& m) {
         block_sums(m, 128, 1);
         m.out[0] = std::accumulate(m.out.begin() + 1, m.out.end(), 0.0f);
         m.work[0] = 5;
       }});
  add({"histogram", {3}, {128}, 350, 350, 1, 0, [](Memory& m) {
         for (const float x : m.in) ++m.work[bin(x) & 15u];
       }});
  add({"scan", {1}, {256}, 256, 256, 256, 0, [](Memory& m) {
         std::partial_sum(m.in.begin(), m.in.end(), m.out.begin());
       }});
  add({"matmul", {2, 2}, {16, 16}, 32, 1024, 1024, 0, [](Memory& m) {
         for (Size r = 0; r < 32; ++r) {
           for (Size c = 0; c < 32; ++c) {
             float sum = 0;
             for (Size k = 0; k < 32; ++k) sum += m.in[r * 32 + k] * m.in[k * 32 + c];
             m.out[r * 32 + c] = sum;
           }
         }
       }});
  add({"stencil", {3}, {128}, 300, 300, 300, 0, [](Memory& m) {
         for (Size i = 0; i < 300; ++i) {
           m.out[i] = (i > 0 ? m.in[i - 1] : 0.0f) + m.in[i] + (i + 1 < 300 ? m.in[i + 1] : 0.0f);
         }
       }});
  add({"copy_async", {2}, {128}, 1024, 1024, 1024, 0, [](Memory& m) {
         for (Size i = 0; i < 1024; ++i) m.out[i] = m.in[i / 512 * 512 + 511 - i % 512];
       }});
  add({"pipeline2", {1}, {128}, 2560, 2560, 128, 0, [](Memory& m) {
         for (Size t = 0; t < 128; ++t) {
           for (Size tile = 0; tile < 5; ++tile) {
             for (Size i = 0; i < 4; ++i) m.out[t] += m.in[tile * 512 + ((t * 4 + 128 + i) & 511)];
           }
         }
       }});
  add({"pipeline3", {1}, {64}, 1792, 1792, 64, 0, [](Memory& m) {
         for (Size t = 0; t < 64; ++t) {
           for (Size tile = 0; tile < 7; ++tile) {
             for (Size i = 0; i < 4; ++i) {
               m.out[t] += m.in[tile * 256 + ((t + 64 * i + 32) & 255)] * static_cast<float>(i + 1);
             }
           }
         }
       }});
  add({"copy_zero_fill", {2}, {128}, 200, 200, 256, 0, [](Memory& m) {
         for (Size i = 0; i < 256; ++i) {
           const Size from = i / 128 * 128 + 127 - i % 128;
           m.out[i] = from < 200 ? m.in[from] : 0.0f;
         }
       }});
  add({"mma_swizzled", {1}, {32}, 0, 384, 128, 0, [](Memory& m) { product(m, 16); }});
  add({"mma_rows", {1}, {32}, 11, 384, 128, 0, [](Memory& m) { product(m, 11); }});
  add({"named_barriers", {1}, {128}, 320, 320, 64, 0, [](Memory& m) {
         for (Size t = 0; t < 64; ++t) {
           for (Size round = 0; round < 5; ++round) m.out[t] += m.in[round * 64 + 63 - t];
         }
       }});
  add({"spin_lock", {6}, {32}, 6, 6, 1, 0, [](Memory& m) {
         for (const float x : m.in) m.work[1] += bin(x);
       }});
  add({"flag", {2}, {64}, 64, 64, 128, 0, [](Memory& m) {
         hand_over(m);
         m.work[0] = 1;
       }});
  add({"acquire_release", {2}, {64}, 64, 64, 128, 0, [](Memory& m) {
         hand_over(m);
         m.work[0] = 1;
       }});
  add({"warp_exchange", {2}, {128}, 256, 256, 256, 0, [](Memory& m) {
         for (Size i = 0; i < 256; ++i) m.out[i] = m.in[i / 32 * 32 + (i + 15) % 32];
       }});
  add({"half_warps", {2}, {128}, 256, 256, 256, 0, [](Memory& m) {
         for (Size i = 0; i < 256; ++i) m.out[i] = m.in[i / 16 * 16 + (i + 5) % 16];
       }});
  add({"sync_in_branches", {1}, {64}, 64, 64, 64, 0, [](Memory& m) {
         for (Size i = 0; i < 64; ++i) m.out[i] = i % 2 == 0 ? -m.in[i + 1] : m.in[i - 1];
       }});
  add({"early_exit", {2}, {64}, 90, 90, 90, 0, [](Memory& m) {
         for (Size i = 0; i < 90; ++i) m.out[i] = i < 64 ? m.in[63 - i] : m.in[64 + 25 - (i - 64)];
       }});
  add({"reset_count", {3}, {96}, 288, 288, 3, 0, [](Memory& m) {
         std::vector<float> counts(3);
         for (Size i = 0; i < 288; ++i) counts[i / 96] += m.in[i] > 0.0f ? 1.0f : 0.0f;
         m.out = counts;
       }});
  add({"cas_add", {1}, {96}, 96, 96, 1, 0, [](Memory& m) {
         float sum = 0;
         for (Size i = 0; i < 96; ++i) sum += m.in[i];
         m.out[0] = sum;
         m.work[1] = std::bit_cast<std::uint32_t>(sum);
       }});
  add({"lane_locks", {1}, {48}, 48, 48, 1, 0, [](Memory& m) {
         float sum = 0;
         for (Size i = 0; i < 48; ++i) sum += m.in[i];
         m.out[0] = sum;
       }});
  add({"softmax", {2}, {128}, 7, 448, 448, 0, [](Memory& m) { softmax_rows(m, 7); }});
  add({"local_array", {2}, {64}, 1024, 1024, 128, 0, [](Memory& m) {
         for (Size i = 0; i < 128; ++i) {
           std::vector<float> seen(16);
           for (Size k = 0; k < 8; ++k) seen[bin(m.in[(i * 8 + k) % 1024]) & 15u] += 1.0f;
           m.out[i] = seen[bin(m.in[i]) & 15u];
         }
       }});
  add({"calls", {2}, {64}, 120, 120, 120, 0, [](Memory& m) {
         for (Size i = 0; i < 120; ++i) {
           const float twice = 2.0f * m.in[i] + 1.0f;
           m.out[i] = (i % 3 == 0 ? twice : 3.0f * m.in[i] - 1.0f) + twice;
         }
       }});
  add({"partial_masks", {3}, {32}, 96, 96, 96, 0, [](Memory& m) {
         for (Size b = 0; b < 3; ++b) {
           float sum = 0, most = -100.0f;
           for (Size t = 0; t < 32; t += 2) {
             sum += m.in[b * 32 + t];
             most = std::max(most, m.in[b * 32 + t + 1]);
           }
           for (Size t = 0; t < 32; ++t) m.out[b * 32 + t] = t % 2 == 0 ? sum : most;
         }
       }});
  add({"barrier_count", {2}, {96}, 192, 192, 192, 0, [](Memory& m) {
         for (Size b = 0; b < 2; ++b) {
           const float* const at = m.in.data() + b * 96;
           const auto positive = std::count_if(at, at + 96, [](float x) { return x > 0.0f; });
           const bool any = std::any_of(at, at + 96, [](float x) { return x > 5.0f; });
           for (Size t = 0; t < 96; ++t) m.out[b * 96 + t] = static_cast<float>(positive + (any ? 1000 : 0));
         }
       }});
  add({"atomic_max", {3}, {64}, 150, 150, 1, 0, [](Memory& m) {
         for (const float x : m.in) m.work[0] = std::max(m.work[0], bin(x));
       }});
  add({"bitonic", {1}, {256}, 256, 256, 256, 0, [](Memory& m) {
         m.out = m.in;
         std::sort(m.out.begin(), m.out.end());
       }});
  add({"compact",
       {2},
       {128},
       230,
       230,
       230,
       0,
       [](Memory& m) {
         Size kept = 0;
         for (const float x : m.in) {
           if (x > 0.0f) m.out[kept++] = x;
         }
         m.work[0] = static_cast<std::uint32_t>(kept);
       },
       true});
  add({"halves", {2}, {64}, 250, 250, 250, 0, [](Memory& m) {
         for (Size i = 0; i < 250; ++i) m.out[i] = m.in[i] * m.in[i] + (i % 2 == 0 ? 1.0f : 2.0f);
       }});
  add({"layernorm", {2}, {256}, 512, 512, 512, 0, [](Memory& m) {
         for (Size b = 0; b < 2; ++b) {
           const float* const row = m.in.data() + b * 256;
           const float mean = std::accumulate(row, row + 256, 0.0f) / 256.0f;
           float square = 0;
           for (Size t = 0; t < 256; ++t) square += (row[t] - mean) * (row[t] - mean);
           for (Size t = 0; t < 256; ++t) m.out[b * 256 + t] = (row[t] - mean) / std::sqrt(square / 256.0f + 1e-5f);
         }
       }});
  add({"grid_barrier", {4}, {64}, 256, 256, 512, 0, [](Memory& m) {
         for (Size i = 0; i < 256; ++i) m.out[i] = m.in[i] * 3.0f;
         for (Size i = 0; i < 256; ++i) m.out[256 + i] = m.out[(i + 64) % 256];
         m.work[0] = 4;
       }});
  add({"matvec", {2}, {96}, 256, 1536, 6, 0, [](Memory& m) {
         for (Size r = 0; r < 6; ++r) {
           for (Size i = 0; i < 256; ++i) m.out[r] += m.in[r * 256 + i] * static_cast<float>(i % 4 + 1);
         }
       }});
  add({"dynamic_shared", {1}, {96}, 192, 192, 96, 768, [](Memory& m) {
         for (Size t = 0; t < 96; ++t) m.out[t] = m.in[95 - t] - m.in[96 + (t + 1) % 96];
       }});
  add({"attention", {2}, {128}, 48, 8 * 32 + 2 * 48 * 32, 256, 0, [](Memory& m) { attention_rows(m, 48); }});
  add({"lookback", {5}, {128}, 640, 640, 640, 0, [](Memory& m) {
         std::partial_sum(m.in.begin(), m.in.end(), m.out.begin());
         for (Size b = 0; b < 5; ++b) {
           m.work[b] = 1;
           const float prefix = m.out[b * 128 + 127];
           std::copy_n(reinterpret_cast<const std::uint8_t*>(&prefix), 4,
                       reinterpret_cast<std::uint8_t*>(&m.work[32 + b]));
         }
       }});
  return list;
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> list = make();
  return list;
}

}  // namespace flashmoe::vgpu::corpus
