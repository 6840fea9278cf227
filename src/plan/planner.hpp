// Problem + device -> plan. Host only, no allocation, no data: the same inputs always give the same plan.
#pragma once

#include <cstdint>

#include "flashmoe/flashmoe.h"

namespace flashmoe::plan {

// What the planner knows of the device.
struct DeviceCaps {
  fms_device_kind kind = FMS_DEVICE_CPU;
  fms_cpu_isa cpu_isa = FMS_ISA_SCALAR;
  int32_t max_threads = 1;
};

// `options` may be null. Checks the problem.
[[nodiscard]] fms_status make_plan(const DeviceCaps& caps, const fms_attention_problem& problem,
                                   const fms_plan_options* options, fms_attention_plan* plan, fms_error* error);

// Over everything behind the fingerprint field.
uint64_t fingerprint_of(const fms_attention_plan& plan);

// Like snprintf: the length without the NUL.
std::size_t explain(const fms_attention_plan& plan, char* text, std::size_t capacity);
std::size_t to_json(const fms_attention_plan& plan, char* text, std::size_t capacity);

}  // namespace flashmoe::plan
