#include "workflow/selftest/cuda_corpus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace flashmoe::workflow {
namespace {

TEST(CudaCorpus, EveryOneIsRefusedByItsCheckAndHonestKernelsPass) {
  Progress quiet(1, true);
  for (const CheatOutcome& outcome : run_cuda_cases(quiet)) {
    EXPECT_TRUE(outcome.as_expected) << outcome.name << ": expected '" << outcome.expected_gate.value_or("")
                                     << "', stopped at '" << outcome.stopped_at.value_or("") << "': " << outcome.message
                                     << outcome.not_run;
  }
}

TEST(CudaCorpus, IsLargeAndItsNamesAreItsOwn) {
  std::set<std::string> names;
  const auto& cases = all_cuda_cases();
  for (const CudaCase& one : cases) {
    names.insert(one.name);
    EXPECT_EQ(one.name.starts_with("honest"), one.expected_gate.empty()) << one.name;
  }
  EXPECT_EQ(names.size(), cases.size());
  const auto honest =
      std::count_if(cases.begin(), cases.end(), [](const CudaCase& one) { return one.expected_gate.empty(); });
  EXPECT_GE(honest, 8);
  EXPECT_GE(std::ssize(cases) - honest, 12);
  for (const std::string& name : cuda_cases_in_short()) EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace flashmoe::workflow
