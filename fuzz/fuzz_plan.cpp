// Any bytes as a plan, with the fingerprint that belongs to them: refused by name, or a plan that the planner makes,
// and then the right answer. Never a crash, never a hang, never a byte outside the buffers.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "attention_property.hpp"
#include "fuzzed_problem.hpp"
#include "plan/planner.hpp"
#include "support/library_run.hpp"

namespace flashmoe::fuzz {
namespace {

constexpr size_t kMaxWorkspaceBytes = size_t{1} << 26;

// Of the bytes behind the fingerprint: any four or eight, to anything; small numbers get furthest.
void overwrite(FuzzedDataProvider& bytes, fms_attention_plan& plan) {
  constexpr size_t first = offsetof(fms_attention_plan, device_kind);
  for (int count = bytes.ConsumeIntegralInRange<int>(0, 4); count > 0; --count) {
    const size_t at = first + 4 * bytes.ConsumeIntegralInRange<size_t>(0, (sizeof plan - first) / 4 - 1);
    const size_t width = std::min<size_t>(bytes.ConsumeBool() ? 8 : 4, sizeof plan - at);
    const int64_t value =
        bytes.ConsumeBool() ? bytes.ConsumeIntegralInRange<int64_t>(-3, 300) : bytes.ConsumeIntegral<int64_t>();
    std::memcpy(reinterpret_cast<char*>(&plan) + at, &value, width);
  }
  plan.fingerprint = plan::fingerprint_of(plan);
}

bool is_accepted(const fms_context* context, const fms_attention_plan& plan) {
  const fms_attention_args no_args{};
  fms_error error{};
  const fms_status status = fms_attention_run(context, &plan, &no_args, nullptr, 0, nullptr, &error);
  check_error(status, error);
  char text[128];
  const size_t explained = fms_plan_explain(&plan, text, sizeof text),
               printed = fms_plan_json(&plan, text, sizeof text);
  if (explained == 0 || printed == 0) fail("a plan, or none, without a word", testing::to_string(error));
  return !std::string(error.argument).starts_with("plan");
}

void run_one(const uint8_t* data, size_t size) {
  FuzzedDataProvider bytes(data, size);
  const auto edits = bytes.ConsumeBytes<uint8_t>(bytes.ConsumeIntegralInRange<size_t>(0, 64));
  const auto rest = bytes.ConsumeRemainingBytes<uint8_t>();
  FuzzedProblem fuzzed = fuzzed_problem(rest.data(), rest.size());
  const fms_context* context = contexts()[fuzzed.isa % contexts().size()].get();
  fms_attention_plan plan{};
  // A problem that cannot be planned leaves a plan of zeros to begin with.
  (void)fms_attention_plan_make(context, &fuzzed.problem, &fuzzed.options, &plan, nullptr);
  plan.struct_size = sizeof plan;
  plan.version = FMS_PLAN_VERSION;
  FuzzedDataProvider edit_bytes(edits.data(), edits.size());
  overwrite(edit_bytes, plan);
  if (!is_accepted(context, plan)) return;
  if (!is_small(plan.problem) || !indices_are_valid(plan.problem, fuzzed.indices) ||
      plan.workspace_bytes > kMaxWorkspaceBytes) {
    return;
  }
  fuzzed.problem = plan.problem;
  testing::AttentionCase one = make_case(fuzzed);
  const testing::FencedBuffer workspace(plan.workspace_bytes, testing::Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
  const fms_attention_args args = one.args();
  fms_error error{};
  void* memory = workspace.bytes() == 0 ? nullptr : workspace.data();
  if (fms_attention_run(context, &plan, &args, memory, workspace.bytes(), nullptr, &error) != FMS_OK) {
    fail("an accepted plan does not run: " + testing::to_string(error), one.describe());
  }
  check_answer(one);
}

}  // namespace
}  // namespace flashmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flashmoe::fuzz::run_one(data, size);
  return 0;
}
