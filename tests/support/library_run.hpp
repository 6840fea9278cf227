// Calls of the C ABI as a careful user makes them, with every status kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "flashmoe/flashmoe.h"
#include "support/attention_case.hpp"

namespace flashmoe::testing {

struct DestroyContext {
  void operator()(fms_context* context) const { fms_context_destroy(context); }
};
using Context = std::unique_ptr<fms_context, DestroyContext>;

// Null where the machine lacks this ISA.
Context make_context(fms_cpu_isa isa);

// Every ISA for which a context can be made; scalar is always among them.
std::vector<fms_cpu_isa> available_isas();

constexpr fms_dtype kAllDtypes[] = {FMS_F16, FMS_BF16, FMS_F32};

struct RunResult {
  fms_status status = FMS_INTERNAL_ERROR;
  fms_error error{};
  fms_attention_plan plan{};  // as far as planning got
  fms_run_info info{};
};

// Plan, allocate a fenced workspace filled with NaN, run. `options` may be null.
RunResult plan_and_run(const fms_context* context, AttentionCase& one, const fms_plan_options* options = nullptr);

fms_plan_options plan_options(int32_t threads, int32_t kv_splits, int32_t q_tile);

std::string to_string(const fms_error& error);

}  // namespace flashmoe::testing
