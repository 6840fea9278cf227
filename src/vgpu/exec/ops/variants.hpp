// The ops that are compiled once per instruction set of the host, and those compiled once. Each finder answers nullptr
// for what is not its own.
#pragma once

#include "vgpu/exec/ops/key.hpp"

#define VGPU_DECLARE_VARIANT(name)                                                          \
  namespace flashmoe::vgpu::exec::ops::name {                                               \
  [[nodiscard]] ir::Handler find_integer(const Key& key);     /* 9.7.1, 9.7.8, selp, mov */ \
  [[nodiscard]] ir::Handler find_float32(const Key& key);     /* 9.7.3, f32 */              \
  [[nodiscard]] ir::Handler find_approximate(const Key& key); /* 9.7.3, .approx */          \
  [[nodiscard]] ir::Handler find_compare(const Key& key);     /* setp, 9.7.6 */             \
  [[nodiscard]] ir::Handler find_convert(const Key& key);     /* cvt, 9.7.9.21 */           \
  [[nodiscard]] ir::Handler find_shuffle(const Key& key);     /* shfl, 9.7.9.6 */           \
  [[nodiscard]] ir::Handler find_half(const Key& key);        /* 9.7.4, 9.7.3 in bf16 */    \
  [[nodiscard]] ir::Handler find_matrix(const Key& key);      /* mma, 9.7.14 */             \
  }

VGPU_DECLARE_VARIANT(baseline)
VGPU_DECLARE_VARIANT(avx2)
VGPU_DECLARE_VARIANT(avx512)

#undef VGPU_DECLARE_VARIANT
