// Fragments filled from plain matrices by the layout that atoms/mma.cuh writes down, and results stored by it.
#include "kernels/cuda/atoms/mma.cuh"

namespace flashmoe::cuda {
namespace {

// A is 16 x 16 by rows, B 16 x 8 by columns; two neighbours a word.
FMS_DEVICE void load_a(uint32 (&a)[4], const uint32* words) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  for (int i = 0; i < 4; ++i) a[i] = words[(g + i % 2 * 8) * 8 + t + i / 2 * 4];
}
FMS_DEVICE void load_b(uint32 (&b)[2], const uint32* words) {
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  for (int i = 0; i < 2; ++i) b[i] = words[g * 8 + t + i * 4];
}
FMS_DEVICE int c_index(int i) {  // 16 x 8 by rows
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  return (g + i / 2 * 8) * 8 + 2 * t + i % 2;
}

template <class T>
FMS_DEVICE void product(const uint32* a_words, const uint32* b_words, const float* c_values, float* with_c,
                        float* alone) {
  uint32 a[4], b[2];
  float c[4], d[4], e[4];
  load_a(a, a_words);
  load_b(b, b_words);
  for (int i = 0; i < 4; ++i) c[i] = c_values[c_index(i)];
  mma_16x8x16<T>(d, a, b[0], b[1], c);
  mma_16x8x16<T>(e, a, b[0], b[1]);
  for (int i = 0; i < 4; ++i) {
    with_c[c_index(i)] = d[i];
    alone[c_index(i)] = e[i];
  }
}

// (A B) V, where B is 16 x 16 in two halves: what attention does. Products of B's halves, packed, are the next A.
template <class T>
FMS_DEVICE void chain(const uint32* a_words, const uint32* b_words, const uint32* v_words, float* to) {
  uint32 a[4], b[2], v[2];
  float s[2][4], o[4];
  load_a(a, a_words);
  for (int n = 0; n < 2; ++n) {
    load_b(b, b_words + n * 64);
    mma_16x8x16<T>(s[n], a, b[0], b[1]);
  }
  const uint32 p[4] = {pack<T>(s[0][0], s[0][1]), pack<T>(s[0][2], s[0][3]), pack<T>(s[1][0], s[1][1]),
                       pack<T>(s[1][2], s[1][3])};
  load_b(v, v_words);
  mma_16x8x16<T>(o, p, v[0], v[1]);
  for (int i = 0; i < 4; ++i) to[c_index(i)] = o[i];
}

// Every pattern of 16 bits: as a float, packed again with its complement, and whether it is wild.
template <class T>
FMS_DEVICE void formats(float* values, uint32* packed, uint32* wild) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto bits = static_cast<unsigned short>(i);
  values[i] = to_float<T>(bits);
  packed[i] = pack<T>(values[i], 1.0f);
  wild[i] = wild_halves<T>(static_cast<uint32>(i) | static_cast<uint32>(65535 - i) << 16);
}

// Floats between two numbers of 16 bits.
template <class T>
FMS_DEVICE void roundings(const float* values, uint32* packed) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  packed[i] = pack<T>(values[2 * i], values[2 * i + 1]);
}

}  // namespace
}  // namespace flashmoe::cuda

using flashmoe::cuda::BFloat16;
using flashmoe::cuda::Half;

#define FMS_KERNELS(name, T)                                                                                     \
  extern "C" __global__ void product_##name(const unsigned* a, const unsigned* b, const float* c, float* with_c, \
                                            float* alone) {                                                      \
    flashmoe::cuda::product<T>(a, b, c, with_c, alone);                                                          \
  }                                                                                                              \
  extern "C" __global__ void chain_##name(const unsigned* a, const unsigned* b, const unsigned* v, float* to) {  \
    flashmoe::cuda::chain<T>(a, b, v, to);                                                                       \
  }                                                                                                              \
  extern "C" __global__ void formats_##name(float* values, unsigned* packed, unsigned* wild) {                   \
    flashmoe::cuda::formats<T>(values, packed, wild);                                                            \
  }                                                                                                              \
  extern "C" __global__ void roundings_##name(const float* values, unsigned* packed) {                           \
    flashmoe::cuda::roundings<T>(values, packed);                                                                \
  }
FMS_KERNELS(f16, Half)
FMS_KERNELS(bf16, BFloat16)
