// Any number of threads may share a context, the same plan gives the same bits each time, and run does not allocate.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "support/allocation_count.hpp"
#include "support/simple_case.hpp"

namespace flashmoe::testing {
namespace {

// A plan, its workspace and its data, ready to be run again and again.
struct Prepared {
  AttentionCase one;
  fms_attention_plan plan{};
  FencedBuffer workspace;

  Prepared(const fms_context* context, const fms_attention_problem& problem, const fms_plan_options& options)
      : one(normal_case(problem)) {
    fms_error error{};
    EXPECT_EQ(fms_attention_plan_make(context, &problem, &options, &plan, &error), FMS_OK) << to_string(error);
    workspace = FencedBuffer(plan.workspace_bytes, Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
  }
  fms_status run(const fms_context* context) const {
    const fms_attention_args args = one.args();
    return fms_attention_run(context, &plan, &args, workspace.bytes() == 0 ? nullptr : workspace.data(),
                             workspace.bytes(), nullptr, nullptr);
  }
};

std::vector<fms_attention_problem> problems_of_all_kinds() {
  std::vector<fms_attention_problem> problems;
  for (const fms_dtype dtype : kAllDtypes) {
    for (const Shape& shape : kLawShapes) {
      problems.push_back(simple_problem(dtype, shape));
      problems.back().window_right = 0;
    }
  }
  return problems;
}

TEST(Concurrency, SixtyFourThreadsOnOneContextGetTheSameBits) {
  constexpr int kThreads = 64;
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    const std::vector<fms_attention_problem> problems = problems_of_all_kinds();
    const fms_plan_options options = plan_options(2, 0, 0);
    std::vector<std::vector<uint8_t>> alone;
    for (const fms_attention_problem& problem : problems) {
      const Prepared prepared(context.get(), problem, options);
      ASSERT_EQ(prepared.run(context.get()), FMS_OK);
      alone.push_back(prepared.one.output_bytes());
    }
    std::atomic<int> differences{0}, errors{0};
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const size_t which = static_cast<size_t>(t) % problems.size();  // neighbours do something else
        Prepared prepared(context.get(), problems[which], options);
        start.arrive_and_wait();
        for (int repeat = 0; repeat < 5; ++repeat) {
          prepared.one.reset_outputs();
          errors += prepared.run(context.get()) != FMS_OK;
          differences += prepared.one.output_bytes() != alone[which];
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(errors, 0) << fms_cpu_isa_name(isa);
    EXPECT_EQ(differences, 0) << fms_cpu_isa_name(isa);
  }
}

TEST(Concurrency, RepeatedRunsAtAFixedThreadCountGiveTheSameBits) {
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    for (const fms_attention_problem& problem : problems_of_all_kinds()) {
      for (const fms_plan_options& options : {plan_options(2, 0, 0), plan_options(3, 4, 0)}) {
        Prepared prepared(context.get(), problem, options);
        ASSERT_EQ(prepared.run(context.get()), FMS_OK);
        const std::vector<uint8_t> first = prepared.one.output_bytes();
        for (int repeat = 0; repeat < 5; ++repeat) {
          prepared.one.reset_outputs();
          ASSERT_EQ(prepared.run(context.get()), FMS_OK);
          ASSERT_EQ(prepared.one.output_bytes(), first)
              << fms_cpu_isa_name(isa) << " threads " << options.threads << ' ' << prepared.one.describe();
        }
      }
    }
  }
}

// A context created and destroyed beside running ones disturbs nobody.
TEST(Concurrency, ContextsComeAndGo) {
  const Context context = make_context(FMS_ISA_AUTO);
  const Prepared prepared(context.get(), simple_problem(FMS_BF16, kLawShapes[0]), plan_options(1, 0, 0));
  ASSERT_EQ(prepared.run(context.get()), FMS_OK);
  const std::vector<uint8_t> alone = prepared.one.output_bytes();
  std::atomic<bool> done{false};
  std::thread others([&] {
    while (!done) {
      for (const fms_cpu_isa isa : {FMS_ISA_SCALAR, FMS_ISA_AVX2, FMS_ISA_AVX512, FMS_ISA_AMX}) {
        make_context(isa);
      }
    }
  });
  for (int repeat = 0; repeat < 200; ++repeat) {
    ASSERT_EQ(prepared.run(context.get()), FMS_OK);
    ASSERT_EQ(prepared.one.output_bytes(), alone);
  }
  done = true;
  others.join();
}

TEST(Allocation, RunAndPlanDoNotAllocate) {
#if !FMS_COUNT_ALLOCATIONS
  GTEST_SKIP() << "the sanitizer owns malloc";
#else
  ASSERT_TRUE(allocations_are_counted());
  for (const fms_cpu_isa isa : available_isas()) {
    const Context context = make_context(isa);
    for (const fms_attention_problem& problem : problems_of_all_kinds()) {
      for (const fms_plan_options& options : {plan_options(0, 0, 0), plan_options(1, 0, 0), plan_options(2, 3, 0)}) {
        const Prepared prepared(context.get(), problem, options);
        ASSERT_EQ(prepared.run(context.get()), FMS_OK);  // OpenMP makes its threads
        const int64_t before_run = allocation_count();
        const fms_status status = prepared.run(context.get());
        const int64_t in_run = allocation_count() - before_run;
        EXPECT_EQ(status, FMS_OK);
        EXPECT_EQ(in_run, 0) << fms_cpu_isa_name(isa) << " threads " << options.threads << " kv_splits "
                             << options.kv_splits << ' ' << prepared.one.describe();
        fms_attention_plan plan;
        const int64_t before_plan = allocation_count();
        const fms_status planned = fms_attention_plan_make(context.get(), &problem, &options, &plan, nullptr);
        const int64_t in_plan = allocation_count() - before_plan;
        EXPECT_EQ(planned, FMS_OK);
        EXPECT_EQ(in_plan, 0);
      }
    }
  }
#endif
}

}  // namespace
}  // namespace flashmoe::testing
