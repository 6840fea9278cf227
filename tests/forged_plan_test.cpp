// A plan is bytes that anybody can write, fingerprint included. What run accepts is what the planner makes of the
// problem inside; everything else is refused by name, and printed as no plan.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "plan/planner.hpp"
#include "support/raw_enum.hpp"
#include "support/simple_case.hpp"
#if defined(FMS_COUNTING_DRIVER)
#include "cuda/launch_times.hpp"
#endif

namespace flashmoe::testing {
namespace {

constexpr size_t kFirstField = offsetof(fms_attention_plan, device_kind);

// What the planner makes of the problem and the choices in a plan.
bool is_what_the_planner_makes(const fms_attention_plan& plan, const fms_context* context) {
  Context lower;
  const bool is_cpu = raw_value(plan.device_kind) == FMS_DEVICE_CPU;
  if (is_cpu) {
    const int isa = raw_value(plan.cpu_isa);
    if (isa < FMS_ISA_SCALAR || isa > fms_context_cpu_isa(context)) return false;
    lower = make_context(static_cast<fms_cpu_isa>(isa));
    context = lower.get();
  }
  const bool is_empty = raw_value(plan.family) == FMS_KERNEL_EMPTY;
  const fms_plan_options options =
      is_empty ? plan_options(0, 0, 0) : plan_options(is_cpu ? plan.threads : 0, plan.kv_splits, plan.q_tile);
  fms_attention_plan made;
  return fms_attention_plan_make(context, &plan.problem, &options, &made, nullptr) == FMS_OK &&
         std::memcmp(&made, &plan, sizeof plan) == 0;
}

// Refused because of the plan, or accepted because the planner makes it; without arguments, so that nothing runs.
void expect_judged(const fms_context* context, const fms_attention_plan& plan, const std::string& what) {
  const fms_attention_args no_args{};
  fms_error error{};
  ASSERT_EQ(fms_attention_run(context, &plan, &no_args, nullptr, 0, nullptr, &error), FMS_INVALID_ARGUMENT) << what;
  const bool is_refused = std::string(error.argument).starts_with("plan");
  const bool is_made = is_what_the_planner_makes(plan, context);
  EXPECT_NE(is_refused, is_made) << what << ": " << to_string(error);
  char text[8192];
  const size_t length = fms_plan_json(&plan, text, sizeof text);
  if (is_refused) {
    EXPECT_GE(std::strlen(error.message), 20u) << what;
  } else {
    EXPECT_GT(length, 100u) << what;
  }
  fms_plan_explain(&plan, text, sizeof text);
}

constexpr int64_t kValues[] = {0,
                               1,
                               2,
                               3,
                               -1,
                               64,
                               100,
                               4096,
                               int64_t{1} << 20,
                               std::numeric_limits<int32_t>::max(),
                               std::numeric_limits<int32_t>::min(),
                               int64_t{1} << 40,
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min()};

// Every value in every place, as four and as eight bytes.
void forge_every_field(const fms_context* context, const fms_attention_plan& good) {
  expect_judged(context, good, "good");
  for (size_t at = kFirstField; at < sizeof good; at += 4) {
    for (const size_t bytes : {4, 8}) {
      if (at + bytes > sizeof good) continue;
      for (const int64_t value : kValues) {
        fms_attention_plan forged = good;
        std::memcpy(reinterpret_cast<char*>(&forged) + at, &value, bytes);
        forged.fingerprint = plan::fingerprint_of(forged);
        if (raw_value(forged.device_kind) != raw_value(good.device_kind)) continue;  // another test's
        // A kernel for a larger head would do, though the planner has a smaller one.
        if (raw_value(good.device_kind) == FMS_DEVICE_CUDA && forged.problem.head_dim != good.problem.head_dim)
          continue;
        expect_judged(context, forged, "byte " + std::to_string(at) + ": " + std::to_string(value));
      }
    }
  }
}

fms_attention_plan plan_of(const fms_context* context, const fms_attention_problem& problem,
                           const fms_plan_options& options) {
  fms_attention_plan plan{};
  fms_error error{};
  EXPECT_EQ(fms_attention_plan_make(context, &problem, &options, &plan, &error), FMS_OK) << to_string(error);
  return plan;
}

TEST(ForgedPlan, IsRefusedOnTheCpu) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    fms_attention_problem paged = simple_problem(FMS_BF16, {2, 8, 2, 3, 300, 96});
    paged.features |= FMS_PAGED_KV | FMS_KV_LENGTHS;
    paged.page_size = 16;
    paged.page_count = 40;
    paged.block_table_stride = 19;
    paged.k = paged.v = {2 * 16 * 96, 16 * 96, 96};
    fms_attention_problem ragged = simple_problem(FMS_F16, {3, 4, 4, 60, 90, 64});
    ragged.features |= FMS_RAGGED_Q | FMS_RAGGED_KV;
    ragged.total_q = 100;
    ragged.total_kv = 200;
    ragged.q = ragged.o = ragged.k = ragged.v = {0, 64, 4 * 64};
    ragged.lse = {0, 1, 4};
    for (const fms_attention_problem& problem :
         {simple_problem(FMS_F16, {1, 4, 2, 130, 300, 64}), simple_problem(FMS_F32, {1, 2, 2, 1, 700, 40}), paged,
          ragged, simple_problem(FMS_BF16, {0, 1, 1, 5, 5, 64})}) {
      for (const fms_plan_options& options : {plan_options(0, 0, 0), plan_options(2, 3, 32)}) {
        SCOPED_TRACE(fms_cpu_isa_name(isa));
        forge_every_field(context.get(), plan_of(context.get(), problem, options));
      }
    }
  }
}

TEST(ForgedPlan, OfAnotherKindOfDeviceIsRefused) {
  const Context context = make_context(FMS_ISA_AUTO);
  fms_attention_plan forged =
      plan_of(context.get(), simple_problem(FMS_F16, {1, 4, 2, 130, 300, 64}), plan_options(0, 0, 0));
  for (const int32_t kind : {1, 2, -1, 1 << 30}) {
    std::memcpy(&forged.device_kind, &kind, sizeof kind);
    forged.fingerprint = plan::fingerprint_of(forged);
    const fms_attention_args no_args{};
    fms_error error{};
    EXPECT_EQ(fms_attention_run(context.get(), &forged, &no_args, nullptr, 0, nullptr, &error), FMS_INVALID_ARGUMENT);
    EXPECT_TRUE(std::string(error.argument).starts_with("plan.")) << to_string(error);
    EXPECT_EQ(fms_plan_json(&forged, nullptr, 0), std::strlen("null"));
    EXPECT_GT(fms_plan_explain(&forged, nullptr, 0), 0u);
  }
}

#if defined(FMS_COUNTING_DRIVER)
TEST(ForgedPlan, IsRefusedOnAGpu) {
  fms_error error{};
  const Context context = counting_context(error);
  ASSERT_TRUE(context) << to_string(error);
  fms_attention_problem modified = simple_problem(FMS_BF16, {1, 4, 2, 100, 300, 64});
  modified.softcap = 20;
  for (const fms_attention_problem& problem :
       {simple_problem(FMS_F16, {1, 4, 2, 130, 300, 64}), simple_problem(FMS_F16, {1, 32, 8, 1, 4096, 128}), modified,
        simple_problem(FMS_F16, {0, 1, 1, 5, 5, 64})}) {
    for (const fms_plan_options& options : {plan_options(0, 0, 0), plan_options(0, 3, 0)})
      forge_every_field(context.get(), plan_of(context.get(), problem, options));
  }
}
#endif

}  // namespace
}  // namespace flashmoe::testing
