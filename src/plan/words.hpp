// What enums are called in print. The arrays are indexed by the value, and each unit has its own: those of an ISA share
// no symbol with others.
#pragma once

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

constexpr const char* device_kind_names[] = {"cpu", "cuda"};
// What FLASHMOE_CPU_ISA takes, too.
constexpr const char* cpu_isa_names[] = {"auto", "scalar", "avx2", "avx512", "amx"};
constexpr const char* family_names[] = {"empty", "tile", "gemv", "amx", "cuda_forward"};
constexpr const char* pack_names[] = {"none", "head", "block"};
constexpr const char* dtype_names[] = {"?", "fp16", "bf16", "fp32"};

struct FeatureName {
  fms_feature bit;
  const char* name;
};
constexpr FeatureName feature_names[] = {{FMS_LSE, "lse"},
                                         {FMS_BIAS, "bias"},
                                         {FMS_SINKS, "sinks"},
                                         {FMS_RAGGED_Q, "ragged_q"},
                                         {FMS_RAGGED_KV, "ragged_kv"},
                                         {FMS_KV_LENGTHS, "kv_lengths"},
                                         {FMS_PAGED_KV, "paged_kv"},
                                         {FMS_BIAS2, "bias2"},
                                         {FMS_MASK, "mask"},
                                         {FMS_KV_STARTS, "kv_starts"},
                                         {FMS_Q_LENGTHS, "q_lengths"},
                                         {FMS_TOP_LEFT, "top_left"},
                                         {FMS_KV_SCALES, "kv_scales"},
                                         {FMS_PARTIAL, "partial"}};

}  // namespace flashmoe::plan
