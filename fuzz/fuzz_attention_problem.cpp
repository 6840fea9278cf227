// Any description, options and index arrays: an error that says why, or the right answer. Never a crash, never a byte
// outside the buffers (each is a heap allocation of exactly its size, watched by the address sanitizer).
#include <string>
#include <vector>

#include "attention_property.hpp"
#include "fuzzed_problem.hpp"
#include "support/library_run.hpp"

namespace flashmoe::fuzz {
namespace {

using testing::AttentionCase;

void run_with_bad_indices(const fms_context* context, const fms_attention_plan& plan, AttentionCase& one,
                          const testing::IndexArrays& bad) {
  const testing::IndexArrays exact = bad;  // a copied vector has no spare capacity that would hide an overrun
  fms_attention_args args = one.args();
  args.cu_q = exact.cu_q.data();
  args.cu_kv = exact.cu_kv.data();
  args.kv_lengths = exact.kv_lengths.data();
  args.block_table = exact.block_table.data();
  args.kv_starts = exact.kv_starts.data();
  args.q_lengths = exact.q_lengths.data();
  const testing::FencedBuffer workspace(plan.workspace_bytes, testing::Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
  const std::vector<uint8_t> before = one.output_bytes();
  fms_error error{};
  const fms_status status =
      fms_attention_run(context, &plan, &args, workspace.data(), workspace.bytes(), nullptr, &error);
  if (status == FMS_OK) {
    fail("bad index arrays were accepted", one.describe());
  }
  check_error(status, error);
  if (one.output_bytes() != before) {
    fail("bad index arrays were refused after something was written", one.describe());
  }
}

void run_one(const uint8_t* data, size_t size) {
  const FuzzedProblem fuzzed = fuzzed_problem(data, size);
  const fms_attention_problem& p = fuzzed.problem;
  const fms_context* context = contexts()[fuzzed.isa % contexts().size()].get();

  fms_error error{};
  const fms_status checked = fms_attention_problem_check(&p, &error);
  fms_attention_plan plan;
  fms_error plan_error{};
  const fms_status planned = fms_attention_plan_make(context, &p, &fuzzed.options, &plan, &plan_error);
  if (checked != FMS_OK) {
    check_error(checked, error);
    if (planned == FMS_OK) {
      fail("check refuses what plan accepts", testing::to_string(error));
    }
  }
  if (planned != FMS_OK) {
    check_error(planned, plan_error);
    return;
  }
  char text[64];
  if (fms_plan_explain(&plan, text, sizeof text) == 0 || fms_plan_json(&plan, text, sizeof text) == 0) {
    fail("a plan that does not explain itself", "");
  }
  if (!is_small(p) || !indices_are_valid(p, fuzzed.indices)) {
    return;
  }
  AttentionCase one = make_case(fuzzed);
  const bool something_to_do = p.batch > 0 && p.q_len > 0;
  if (something_to_do && !indices_are_valid(p, fuzzed.bad_indices)) {
    run_with_bad_indices(context, plan, one, fuzzed.bad_indices);
  }
  const testing::RunResult result = testing::plan_and_run(context, one, &fuzzed.options);
  if (result.status != FMS_OK) {
    fail("a valid problem is refused: " + testing::to_string(result.error), one.describe());
  }
  check_answer(one);
}

}  // namespace
}  // namespace flashmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flashmoe::fuzz::run_one(data, size);
  return 0;
}
