// NULL in place of each pointer of each exported function: a status that names it, or what flashmoe.h says it means.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/every_call.hpp"
#include "support/simple_case.hpp"
#include "support/tree_for_test.hpp"

namespace flashmoe::testing {
namespace {

class NullPointers : public ::testing::Test {
 protected:
  void SetUp() override {
    setting_.options.struct_size = sizeof setting_.options;
    setting_.context = context_.get();
    setting_.problem = one_.problem();
    setting_.args = one_.args();
    const fms_plan_options options = plan_options(1, 2, 0);
    ASSERT_EQ(fms_attention_plan_make(context_.get(), &setting_.problem, &options, &setting_.plan, nullptr), FMS_OK);
    workspace_ = FencedBuffer(setting_.plan.workspace_bytes, Fence::kAfter, 0xff, FMS_WORKSPACE_ALIGNMENT);
    setting_.workspace = workspace_.data();
  }

  Context context_ = make_context(FMS_ISA_AUTO);
  AttentionCase one_ = normal_case(simple_problem(FMS_F16, {1, 2, 1, 3, 40, 64}));
  FencedBuffer workspace_;
  CallSetting setting_;
};

TEST_F(NullPointers, EveryExportedFunctionIsCalled) {
  std::vector<std::string> called, declared = exported_functions(in_sources("include/flashmoe/flashmoe.h"));
  for (const EveryCall& one : every_call(setting_)) called.emplace_back(one.function);
  std::ranges::sort(called);
  std::ranges::sort(declared);
  ASSERT_GT(declared.size(), 10u);
  EXPECT_EQ(called, declared);
}

TEST_F(NullPointers, NoneIsFollowed) {
  for (const EveryCall& one : every_call(setting_)) {
    fms_error error{};
    ASSERT_EQ(one.call(-1, &error), FMS_OK) << one.function << ": " << to_string(error);
    for (size_t at = 0; at < one.pointers.size(); ++at) {
      const PointerParameter& parameter = one.pointers[at];
      error = {};
      const fms_status status = one.call(static_cast<int>(at), &error);
      EXPECT_EQ(status, parameter.is_required ? FMS_INVALID_ARGUMENT : FMS_OK) << one.function << ' ' << parameter.name;
      if (!parameter.is_required) continue;
      EXPECT_STREQ(error.argument, parameter.name) << one.function << ": " << error.message;
    }
  }
}

TEST_F(NullPointers, APrintedPlanNeedsNoRoom) {
  for (const auto print : {fms_plan_explain, fms_plan_json}) {
    const size_t length = print(&setting_.plan, nullptr, 0);
    EXPECT_GT(length, 20u);
    EXPECT_EQ(print(&setting_.plan, nullptr, 100), length) << "NULL is no room, whatever the capacity says";
    EXPECT_EQ(print(nullptr, nullptr, 100), print(nullptr, nullptr, 0));
  }
}

}  // namespace
}  // namespace flashmoe::testing
