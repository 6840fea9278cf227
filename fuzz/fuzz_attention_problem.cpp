// Any description, options and index arrays: an error that says why, or the right answer. Never a crash, never a byte
// outside the buffers (each is a heap allocation of exactly its size, watched by the address sanitizer).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "fuzzed_problem.hpp"
#include "support/judge.hpp"
#include "support/library_run.hpp"
#include "support/random_problem.hpp"

namespace flashmoe::fuzz {
namespace {

using testing::AttentionCase;
using testing::Tensor;

[[noreturn]] void fail(const std::string& what, const std::string& problem) {
  std::fprintf(stderr, "\nFINDING: %s\n  %s\n", what.c_str(), problem.c_str());
  std::abort();
}

const std::vector<testing::Context>& contexts() {
  static const std::vector<testing::Context> all = [] {
    std::vector<testing::Context> made;
    for (const fms_cpu_isa isa : testing::available_isas()) {
      made.push_back(testing::make_context(isa));
    }
    return made;
  }();
  return all;
}

// An error names its argument and says something, inside its buffers.
void check_error(fms_status status, const fms_error& error) {
  const bool terminated = memchr(error.argument, 0, sizeof error.argument) != nullptr &&
                          memchr(error.message, 0, sizeof error.message) != nullptr;
  if (!terminated || error.code != status || std::strlen(error.message) < 10) {
    fail("an error that does not help", "status " + std::to_string(status));
  }
  if (status != FMS_INVALID_ARGUMENT && status != FMS_NOT_SUPPORTED) {
    fail("an error that is not the caller's", testing::to_string(error));
  }
  if (status == FMS_INVALID_ARGUMENT && error.argument[0] == '\0') {
    fail("an error without its argument", testing::to_string(error));
  }
}

AttentionCase make_case(const FuzzedProblem& fuzzed) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  testing::Random random(fuzzed.seed);
  const auto non_finite = [&] { return random.chance(0.5) ? kInfinity * (random.chance(0.5) ? 1 : -1) : std::nan(""); };
  return AttentionCase(fuzzed.problem, fuzzed.indices, [&](Tensor tensor) {
    const double value = random.normal();
    const bool rare = random.chance(0.003);
    switch (fuzzed.values) {
      case Values::kNormal:
        return value;
      case Values::kPeaked:
        return tensor == Tensor::kQ ? 10 * value : value;
      case Values::kNonFiniteScores:  // never together with kNonFiniteV: which of the two rules wins is not defined
        if (tensor == Tensor::kBias && random.chance(0.3)) {
          return -kInfinity;
        }
        return rare && tensor != Tensor::kV && tensor != Tensor::kSinks ? non_finite() : value;
      case Values::kNonFiniteV:
        return rare && tensor == Tensor::kV ? non_finite() : value;
    }
    return value;
  });
}

void run_with_bad_indices(const fms_context* context, const fms_attention_plan& plan, AttentionCase& one,
                          const testing::IndexArrays& bad) {
  const testing::IndexArrays exact = bad;  // a copied vector has no spare capacity that would hide an overrun
  fms_attention_args args = one.args();
  args.cu_q = exact.cu_q.data();
  args.cu_kv = exact.cu_kv.data();
  args.kv_lengths = exact.kv_lengths.data();
  args.block_table = exact.block_table.data();
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
  const testing::Judgement judgement = testing::judge(one, testing::OracleAnswer(one));
  if (!judgement.complaint.empty()) {
    fail(judgement.complaint, one.describe());
  }
  if (const auto stray = one.stray_write()) {
    fail(*stray, one.describe());
  }
}

}  // namespace
}  // namespace flashmoe::fuzz

// libomp keeps its teams until the process ends, and the leak check would blame us for them.
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libomp.so\n";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flashmoe::fuzz::run_one(data, size);
  return 0;
}
