// A plan is bytes that anybody can write, fingerprint included. Instead of asking of each field whether it can do harm,
// the planner plans again what the plan says: same problem, same choices, and every byte has to come out the same.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "plan/cpu_layout.hpp"
#include "plan/plan_fields.hpp"
#include "plan/planner.hpp"
#include "plan/problem.hpp"
#include "support/raw_enum.hpp"
#include "support/status.hpp"

namespace flashmoe::plan {
namespace {

fms_status refuse(const char* name, int64_t value, int64_t low, int64_t high, fms_error* error) {
  char argument[48];
  std::snprintf(argument, sizeof argument, "plan.%s", name);
  return fail(error, FMS_INVALID_ARGUMENT, argument,
              "%s is %" PRId64 "; allowed: %" PRId64 " to %" PRId64 ". Make the plan with fms_attention_plan_make",
              argument, value, low, high);
}

// As the plan says, in words that the planner understands.
struct Choice {
  const char* name;
  int64_t value, low, high;
};

template <std::size_t N>
fms_status check_choices(const Choice (&choices)[N], fms_error* error) {
  for (const Choice& choice : choices) {
    if (choice.value >= choice.low && choice.value <= choice.high) continue;
    return refuse(choice.name, choice.value, choice.low, choice.high, error);
  }
  return FMS_OK;
}

// What failed while planning again, as an error of the plan.
fms_status refuse_problem(const fms_error& why, fms_error* error) {
  return fail(error, FMS_INVALID_ARGUMENT, "plan.problem", "the problem inside the plan cannot be planned: %s",
              why.message);
}

bool same_bytes(const fms_attention_plan& a, const fms_attention_plan& b) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bit by bit is meant, and the struct has no padding
  return std::memcmp(&a, &b, sizeof a) == 0;
}

fms_status compare(const fms_attention_plan& plan, fms_attention_plan& again, fms_error* error) {
  again.fingerprint = plan.fingerprint;
  if (same_bytes(plan, again)) return FMS_OK;
  const auto differs = [&](const Field& field) {
    return std::memcmp(reinterpret_cast<const char*>(&plan) + field.offset,
                       reinterpret_cast<const char*>(&again) + field.offset, field_bytes(field.kind)) != 0;
  };
  const Field& field = *std::find_if(plan_fields.begin(), plan_fields.end(), differs);
  char argument[48];
  std::snprintf(argument, sizeof argument, "plan.%s", field.name);
  return fail(error, FMS_INVALID_ARGUMENT, argument,
              "%s is not what this library plans for the problem inside: the plan was written by hand or comes from "
              "another build. Make it with fms_attention_plan_make",
              argument);
}

fms_status check_cpu_plan(const fms_attention_plan& plan, fms_error* error) {
  const int isa = raw_value(plan.cpu_isa);
  const bool is_empty_plan = is_empty(plan.problem);
  const Choice choices[] = {{"cpu_isa", isa, FMS_ISA_SCALAR, FMS_ISA_AMX},
                            {"threads", plan.threads, 1, most_threads},
                            {"kv_splits", plan.kv_splits, 1, most_kv_splits},
                            {"q_tile", plan.q_tile, is_empty_plan ? 0 : 1, is_empty_plan ? 0 : max_forced_q_tile}};
  if (auto s = check_choices(choices, error)) return s;
  const DeviceCaps caps{.kind = FMS_DEVICE_CPU, .cpu_isa = static_cast<fms_cpu_isa>(isa), .max_threads = plan.threads};
  const fms_plan_options options{sizeof options, plan.threads, plan.kv_splits, plan.q_tile};
  fms_attention_plan again;
  fms_error why;
  if (choose(caps, plan.problem, options, again, &why) != FMS_OK) return refuse_problem(why, error);
  return compare(plan, again, error);
}

fms_status check_cuda_plan(const fms_attention_plan& plan, fms_error* error) {
  constexpr int64_t most = INT32_MAX;
  fms_attention_plan again;
  begin_plan({.kind = FMS_DEVICE_CUDA, .cpu_isa = FMS_ISA_AUTO}, plan.problem, again);
  if (is_empty(plan.problem)) return compare(plan, again, error);
  const auto workspace_bytes = static_cast<int64_t>(std::min(plan.workspace_bytes, uint64_t{max_workspace_bytes} + 1));
  const Choice choices[] = {{"threads", plan.threads, 1, most},
                            {"kv_splits", plan.kv_splits, takes_list(plan.problem) ? 0 : 1, most_kv_splits},
                            {"q_tile", plan.q_tile, 1, max_forced_q_tile},
                            {"kv_tile", plan.kv_tile, 1, max_forced_q_tile},
                            {"instance", plan.instance, 0, most},
                            {"kernel_head_dim", plan.kernel_head_dim, plan.problem.head_dim, FMS_MAX_HEAD_DIM},
                            {"sm_count", plan.sm_count, 1, most},
                            {"ctas_per_sm", plan.ctas_per_sm, 1, most},
                            {"work_items", plan.work_items, std::max(plan.kv_splits, 1), most},
                            {"workspace_bytes", workspace_bytes, 0, max_workspace_bytes}};
  if (auto s = check_choices(choices, error)) return s;
  // Besides the splits' states the workspace holds counters.
  const SplitStates kept = split_states(plan);
  const int64_t split_bytes =
      (workspace_bytes - kept.counters * int64_t{sizeof(uint32_t)}) / std::max<int64_t>(kept.states, 1);
  const CudaKernel kernel{plan.instance, plan.kernel_head_dim, plan.q_tile, plan.kv_tile,
                          plan.threads,  plan.ctas_per_sm,     split_bytes};
  fms_error why;
  if (finish_cuda_plan(kernel, plan.kv_splits, plan.sm_count, again, &why) != FMS_OK) return refuse_problem(why, error);
  return compare(plan, again, error);
}

fms_status check_whole_plan(const fms_attention_plan& plan, fms_error* error) {
  if (plan.struct_size != sizeof plan || plan.version != FMS_PLAN_VERSION) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.version",
                "plan.struct_size is %u and plan.version %u; allowed: %zu and %d. Make the plan anew with this library",
                plan.struct_size, plan.version, sizeof plan, FMS_PLAN_VERSION);
  }
  if (plan.fingerprint != fingerprint_of(plan)) {
    return fail(error, FMS_INVALID_ARGUMENT, "plan.fingerprint",
                "plan.fingerprint is %016" PRIx64 ", but the fields give %016" PRIx64
                ": the plan was changed after it was made. Use fms_plan_options to force a choice",
                plan.fingerprint, fingerprint_of(plan));
  }
  const int kind = raw_value(plan.device_kind);
  if (kind != FMS_DEVICE_CPU && kind != FMS_DEVICE_CUDA) {
    return refuse("device_kind", kind, FMS_DEVICE_CPU, FMS_DEVICE_CUDA, error);
  }
  fms_error why;
  if (check_problem(plan.problem, &why) != FMS_OK) return refuse_problem(why, error);
  return kind == FMS_DEVICE_CPU ? check_cpu_plan(plan, error) : check_cuda_plan(plan, error);
}

}  // namespace

// The answer depends on nothing but the plan's bytes, and who runs a plan runs it again: the last one that held is
// kept.
fms_status check_plan(const fms_attention_plan& plan, fms_error* error) {
  thread_local fms_attention_plan last{};  // at first no plan: its size is 0
  if (plan.struct_size == sizeof plan && same_bytes(plan, last)) return FMS_OK;
  const fms_status status = check_whole_plan(plan, error);
  if (status == FMS_OK) last = plan;
  return status;
}

fms_status holds_kernel(const fms_attention_plan& plan, const CudaKernel& kernel, fms_error* error) {
  if (plan.kv_splits == 0 && !kernel.takes_list) return refuse("kv_splits", 0, 1, most_kv_splits, error);
  const auto states = static_cast<int64_t>(cuda_workspace_bytes(split_states(plan), kernel.split_bytes));
  const auto same = [](const char* name, int64_t value, int64_t wanted) { return Choice{name, value, wanted, wanted}; };
  const Choice choices[] = {same("kernel_head_dim", plan.kernel_head_dim, kernel.head_dim),
                            same("q_tile", plan.q_tile, kernel.q_tile),
                            same("kv_tile", plan.kv_tile, kernel.kv_tile),
                            same("threads", plan.threads, kernel.threads),
                            same("ctas_per_sm", plan.ctas_per_sm, kernel.ctas_per_sm),
                            same("workspace_bytes", static_cast<int64_t>(plan.workspace_bytes), states)};
  return check_choices(choices, error);
}

}  // namespace flashmoe::plan
