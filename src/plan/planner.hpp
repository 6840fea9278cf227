// Problem + device -> plan. Host only, no allocation, no data: the same inputs always give the same plan.
#pragma once

#include <cstdint>
#include <span>

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

// A CUDA kernel that the library has.
struct CudaInstance {
  const char* name;
  fms_dtype dtype;
  int32_t head_dim;  // the largest it runs
  int32_t q_tile, kv_tile, threads;
  int32_t is_paged, is_modified;  // modified: softcap and bias
  int32_t shared_bytes;
};

// What the planner knows of the device.
struct DeviceCaps {
  fms_device_kind kind = FMS_DEVICE_CPU;
  fms_cpu_isa cpu_isa = FMS_ISA_SCALAR;
  int32_t max_threads = 1;
  int32_t sm_count = 0;
  std::span<const CudaInstance> cuda_instances{};
};

// `options` may be null. Checks the problem.
[[nodiscard]] fms_status make_plan(const DeviceCaps& caps, const fms_attention_problem& problem,
                                   const fms_plan_options* options, fms_attention_plan* plan, fms_error* error);

// On a GPU: the choices, made.workspace_bytes included.
[[nodiscard]] fms_status plan_cuda(const DeviceCaps& caps, const fms_plan_options& options, fms_attention_plan& plan,
                                   fms_error* error);
// Floats of one row of a split's state: the unnormalised result, the largest score, the sum of weights.
[[nodiscard]] constexpr int64_t cuda_state_floats(int32_t instance_head_dim) {
  return instance_head_dim + 2;
}

// Over everything behind the fingerprint field.
uint64_t fingerprint_of(const fms_attention_plan& plan);

// Like snprintf: the length without the NUL.
std::size_t explain(const fms_attention_plan& plan, char* text, std::size_t capacity);
std::size_t to_json(const fms_attention_plan& plan, char* text, std::size_t capacity);

}  // namespace flashmoe::plan
