#include "workflow/gpu/budget.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "workflow/gpu/launch_report.hpp"

namespace flashmoe::workflow {
namespace {

constexpr std::uint64_t least = 30'000'000, most = 1'000'000'000;

// As the virtual GPU writes it.
void tell(const ReportFile& report, std::uint64_t instructions) {
  std::ofstream(report.path(), std::ios::app)
      << R"({"kernel":"k","metrics":[{"name":"vgpu__ptx_inst_executed.sum","value":)" << instructions << "}]}\n";
}

TEST(InstructionBudget, FollowsWhatSmallerCasesNeeded) {
  const ReportFile report;
  InstructionBudget budget(report.path());
  EXPECT_EQ(budget.next(64), least) << "a tiny first case gets seconds, not minutes";
  tell(report, 1'000'000);
  tell(report, 500);  // its second launch
  EXPECT_EQ(budget.next(64), least) << "16 times a million is less";
  tell(report, 2'000'000);
  EXPECT_EQ(budget.next(128), 16u * 4 * 2'000'000) << "twice the size may be four times the work";
  EXPECT_EQ(budget.next(1e9), most);
}

TEST(InstructionBudget, ALargeFirstCaseIsNotCutShort) {
  const ReportFile report;
  EXPECT_EQ(InstructionBudget(report.path()).next(1e6), most);
  EXPECT_EQ(InstructionBudget("").next(20'000), 400'000'000u);
}

TEST(InstructionBudget, AParameterThatNoShapeShowsCounts) {
  Project project;
  project.tensors.resize(1);
  project.tensors[0].shape = {"n"};
  EXPECT_EQ(size_of_case(project, {{"n", 8}}), 8);
  EXPECT_EQ(size_of_case(project, {{"n", 8}, {"steps", 1000}}), 8000);
}

}  // namespace
}  // namespace flashmoe::workflow
