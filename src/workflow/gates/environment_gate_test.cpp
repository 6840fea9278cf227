#include "workflow/gates/environment_gate.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "workflow/environment/fake_python_for_test.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

struct EnvironmentGate : testing::Test {
  ProjectForTest at;
  void SetUp() override {
    at.project.kernel = cpp_callable("kernel.cpp", "run");
    at.project.reference = at.project.kernel;
    at.project.baseline = at.project.kernel;
  }
  void use_python(const std::string& text) {
    at.write("baseline.py", text);
    at.project.baseline.kind = CallableKind::python;
    at.project.baseline.source = "baseline.py";
  }
};

TEST_F(EnvironmentGate, WhatTheProjectDoesNotNeedIsNoError) {
  const FakePython python(R"({"version":"3","numpy":{"installed":false},"extension":{"installed":false}})",
                          R"({"installed":false})");
  const auto result = run_environment_gate(at.project, {});
  EXPECT_EQ(result.outcome, Outcome::holds) << result.summary;
  EXPECT_EQ(find_finding(result.findings, "numpy"), nullptr);
}

TEST_F(EnvironmentGate, AMissingTorchIsAnErrorForThoseWhoImportIt) {
  const FakePython python(good_basic, R"({"installed":false})");
  use_python("import numpy as np\ndef f(tensors, params): return None\n");
  EXPECT_EQ(run_environment_gate(at.project, {}).outcome, Outcome::holds);
  use_python("import numpy as np\nimport os, torch.nn as nn\ndef f(tensors, params): return None\n");
  const auto result = run_environment_gate(at.project, {});
  EXPECT_EQ(result.outcome, Outcome::could_not_run);
  EXPECT_EQ(result.code, codes::environment_no_torch);
  EXPECT_NE(result.summary.find("torch is not installed"), std::string::npos) << result.summary;
}

TEST_F(EnvironmentGate, AMissingLibraryIsToldToThoseWhoLinkWithIt) {
  setenv("CUDADENT_FLASHMOE_DIR", "/nowhere", 1);
  const auto without = run_environment_gate(at.project, {});
  at.project.kernel.libraries = {"flashmoe"};
  const auto with = run_environment_gate(at.project, {});
  unsetenv("CUDADENT_FLASHMOE_DIR");
  EXPECT_EQ(find_finding(without.findings, "libflashmoe.so"), nullptr);
  EXPECT_EQ(without.outcome, Outcome::holds) << without.summary;
  EXPECT_EQ(with.outcome, Outcome::could_not_run);
  EXPECT_EQ(with.code, codes::environment_no_library);
}

TEST_F(EnvironmentGate, AMissingToolkitIsAnErrorForACudaKernel) {
  setenv("CUDACXX", "/nowhere/nvcc", 1);
  EXPECT_EQ(run_environment_gate(at.project, {}).outcome, Outcome::holds);
  at.project.cuda_sources = {"kernel.cu"};
  EXPECT_EQ(run_environment_gate(at.project, {}).outcome, Outcome::holds) << "a twin of the C++ kernel can wait";
  at.project.kernel = {};
  const auto result = run_environment_gate(at.project, {});
  unsetenv("CUDACXX");
  EXPECT_EQ(result.outcome, Outcome::could_not_run);
  EXPECT_EQ(result.code, codes::environment_no_nvcc);
  EXPECT_NE(result.summary.find("/nowhere/nvcc"), std::string::npos) << result.summary;
}

TEST_F(EnvironmentGate, ADeviceThatCannotRunFailsWithAFix) {
  const auto result = run_environment_gate(at.project, *parse_device("cuda:0"));
  EXPECT_EQ(result.outcome, Outcome::could_not_run);
  EXPECT_NE(result.findings.front().fix.find("--device"), std::string::npos) << result.findings.front().fix;
}

}  // namespace
}  // namespace flashmoe::workflow
