// Tests only: a Python whose answers are given, so that every state can be shown on any machine.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "workflow/project/project_for_test.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

[[nodiscard]] inline const Finding* find_finding(const std::vector<Finding>& findings, const std::string& part) {
  for (const Finding& finding : findings)
    if (finding.what.find(part) != std::string::npos) return &finding;
  return nullptr;
}

// CUDADENT_PYTHON while it lives: answers with these two texts.
struct FakePython {
  ProjectForTest at;
  FakePython(const std::string& basic, const std::string& torch) {
    at.write("basic.json", basic + "\n");
    at.write("torch.json", torch + "\n");
    at.write("python", "#!/bin/sh\nexec cat \"$(dirname \"$0\")/$4.json\"\n");
    const std::string program = at.project.directory + "/python";
    chmod(program.c_str(), 0755);
    setenv("CUDADENT_PYTHON", program.c_str(), 1);
  }
  ~FakePython() { unsetenv("CUDADENT_PYTHON"); }
  FakePython(const FakePython&) = delete;
  FakePython& operator=(const FakePython&) = delete;
};

inline constexpr const char* good_basic =
    R"({"version":"3.11.7","numpy":{"installed":true,"loads":true,"version":"2.4.6"},)"
    R"("extension":{"installed":false},"flashmoe_owners":[],"torch_version":"2.15.0"})";
inline constexpr const char* good_torch = R"({"installed":true,"loads":true,"version":"2.15.0"})";

}  // namespace flashmoe::workflow
