// An allocation fails: the first of a call, the second, ... each once, in every exported function. What comes back is a
// status, never an exception, and the next call is none the wiser.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "support/allocation_failure.hpp"
#include "support/every_call.hpp"
#include "support/simple_case.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

// A device and a problem. Contexts are made anew for every attempt.
struct Stage {
  std::string name;
  fms_context_options options{};
  fms_attention_problem problem{};
  std::function<void()> prepare = [] {};  // before every attempt
};

Context context_of(const Stage& stage) {
  fms_context* context = nullptr;
  fms_error error{};
  EXPECT_EQ(fms_context_create(&stage.options, &context, &error), FMS_OK) << to_string(error);
  return Context(context);
}

// Lets every allocation of every function fail in turn; answers how many failed.
int64_t fail_each(const Stage& stage) {
  const AttentionCase one = normal_case(stage.problem);
  const Context planning = context_of(stage);
  CallSetting setting;
  setting.options = stage.options;
  setting.problem = stage.problem;
  setting.args = one.args();
  const fms_plan_options options = plan_options(stage.options.device_kind == FMS_DEVICE_CPU ? 1 : 0, 2, 0);
  fms_error error{};
  EXPECT_EQ(fms_attention_plan_make(planning.get(), &stage.problem, &options, &setting.plan, &error), FMS_OK)
      << stage.name << ' ' << to_string(error);
  const FencedBuffer workspace(setting.plan.workspace_bytes, Fence::kAfter, 0, FMS_WORKSPACE_ALIGNMENT);
  setting.workspace = workspace.data();

  const int64_t before = failed_allocations();
  for (const EveryCall& called : every_call(setting)) {
    bool has_failed = true;
    for (int64_t at = 0; has_failed; ++at) {
      stage.prepare();
      const Context context = context_of(stage);
      setting.context = context.get();
      error = {};
      const int64_t failed_before = failed_allocations();
      fail_allocation(at);
      const fms_status status = called.call(-1, &error);
      fail_allocation(-1);
      has_failed = failed_allocations() > failed_before;
      EXPECT_TRUE(status == FMS_OK || (has_failed && status == FMS_OUT_OF_MEMORY))
          << stage.name << ' ' << called.function << ", allocation " << at << ": " << to_string(error);
      if (status == FMS_OUT_OF_MEMORY && std::string(called.function) != "fms_context_destroy") {
        EXPECT_EQ(error.code, FMS_OUT_OF_MEMORY) << stage.name << ' ' << called.function << ", allocation " << at;
      }
      error = {};
      EXPECT_EQ(called.call(-1, &error), FMS_OK)
          << stage.name << ' ' << called.function << " after allocation " << at << " failed: " << to_string(error);
    }
  }
  return failed_allocations() - before;
}

TEST(AllocationFailure, OnTheCpu) {
  Stage stage{"cpu"};
  stage.options.struct_size = sizeof stage.options;
  stage.problem = simple_problem(FMS_F16, {1, 2, 1, 3, 40, 64});
  EXPECT_GT(fail_each(stage), 0);
}

#if defined(FMS_COUNTING_DRIVER)
// On a driver that allocates nothing itself, so that every failure is the library's.
class AllocationFailureOnAGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("FLASHMOE_DRIVER", in_build("tests/cuda/libcounting_driver.so").c_str(), 1);
    setenv("FLASHMOE_NVRTC", in_build("tests/cuda/libinstant_nvrtc.so").c_str(), 1);
    cache_ = std::filesystem::temp_directory_path() / ("flashmoe-allocation-" + std::to_string(getpid()));
    setenv("FLASHMOE_CACHE_DIR", cache_.c_str(), 1);
    stage_.options.struct_size = sizeof stage_.options;
    stage_.options.device_kind = FMS_DEVICE_CUDA;
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }

  // Kernels are loaded once for a driver, which the library knows by its name: every attempt gets another name of it.
  void rename_driver() {
    const std::filesystem::path file = in_build("tests/cuda/libcounting_driver.so");
    folder_ += "/.";
    setenv("FLASHMOE_DRIVER", (folder_ + "/" + file.filename().string()).c_str(), 1);
  }

  std::filesystem::path cache_;
  static inline std::string folder_ =
      std::filesystem::path(in_build("tests/cuda/libcounting_driver.so")).parent_path().string();
  Stage stage_;
};

TEST_F(AllocationFailureOnAGpu, WithAListedKernel) {
  stage_.name = "listed";
  stage_.problem = simple_problem(FMS_F16, {1, 1, 1, 128, 512, 64});
  stage_.prepare = [&] { rename_driver(); };
  EXPECT_GT(fail_each(stage_), 10);
}

TEST_F(AllocationFailureOnAGpu, WithAKernelThatIsCompiled) {
  stage_.name = "compiled";
  stage_.problem = simple_problem(FMS_F16, {1, 1, 1, 128, 512, 144});
  stage_.problem.softcap = 20;
  stage_.prepare = [&] {
    std::filesystem::remove_all(cache_);
    rename_driver();
  };
  EXPECT_GT(fail_each(stage_), 50);
}

TEST_F(AllocationFailureOnAGpu, WithAKernelFromTheCache) {
  stage_.name = "cached";
  stage_.problem = simple_problem(FMS_F16, {1, 1, 1, 128, 512, 144});
  stage_.problem.softcap = 20;
  stage_.prepare = [&] { rename_driver(); };
  EXPECT_GT(fail_each(stage_), 50);
}
#endif

}  // namespace
}  // namespace flashmoe::testing
