// Checks at run time: the plan is one the planner made, the pointers are there, the index arrays stay inside.
#pragma once

#include <cstddef>

#include "flashmoe/flashmoe.h"
#include "plan/merge_args.hpp"

namespace flashmoe::api {

[[nodiscard]] fms_status check_plan_here(const fms_attention_plan& plan, fms_device_kind context_kind,
                                         fms_cpu_isa context_isa, fms_error* error);
[[nodiscard]] fms_status check_args(const fms_attention_plan& plan, const fms_attention_args& args, fms_error* error);
[[nodiscard]] fms_status check_workspace(const fms_attention_plan& plan, const void* workspace, std::size_t bytes,
                                         fms_error* error);

// Of a checked problem that is not empty.
[[nodiscard]] fms_status check_merge_args(const fms_merge_problem& problem, const plan::MergeArgs& args,
                                          fms_error* error);

}  // namespace flashmoe::api
