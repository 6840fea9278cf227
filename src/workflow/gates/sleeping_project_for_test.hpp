// Tests only: a project whose kernel and baseline sleep, so that it is known which one is faster.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "workflow/gates/gates.hpp"
#include "workflow/project/project_for_test.hpp"

namespace flashmoe::workflow {

// Kernel and baseline sleep, so far apart and so far from what is asked that no load of the machine changes a verdict:
// a sleep is never shorter than asked for, and a busy machine adds about the same to both.
struct SleepingProject : ProjectForTest {
  static constexpr int baseline_microseconds = 20'000;
  static constexpr const char* fast_enough_at_a_fifth = "[0.1, 0.2, 1.2, 1.5]";

  explicit SleepingProject(const std::string& factor, int kernel_microseconds = baseline_microseconds / 5,
                           const std::string& ladder = fast_enough_at_a_fifth) {
    write("cudadent.toml",
          "name = \"sleeping\"\nkernel = \"kernel.cpp:kernel\"\nreference = \"reference.cpp:kernel\"\n"
          "baseline = \"baseline.cpp:kernel\"\n[params]\nn = { default = 8 }\n[inputs]\nx = \"f32[n]\"\n"
          "[outputs]\ny = \"f32[n]\"\n[workloads]\ntiny = { n = 8 }\n[thresholds]\nladder = " +
              ladder + "\n");
    write("kernel.cpp", source(factor, kernel_microseconds));
    write("baseline.cpp", source("2", baseline_microseconds));
    write("reference.cpp", source("2", 0));
  }

  static std::string source(const std::string& factor, int microseconds) {
    return "#include <cudadent/kernel.h>\n#include <unistd.h>\nextern \"C\" int kernel(const cudadent_call* call) {\n"
           "  usleep(" +
           std::to_string(microseconds) +
           ");\n  for (int64_t i = 0; i < call->tensors[0].shape[0]; ++i)\n"
           "    ((float*)call->tensors[1].data)[i] = " +
           factor + " * ((const float*)call->tensors[0].data)[i];\n  return 0;\n}\n";
  }

  GateRun run(const GateOptions& options = {}) {
    auto loaded = load_project(project.directory);
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    if (!loaded) return {};
    Progress quiet(static_cast<int>(all_gates().size()), true);
    return run_gates(*loaded, options, quiet);
  }
};

inline const GateResult& gate(const GateRun& run, const std::string& name) {
  for (const GateResult& one : run.gates) {
    if (one.gate == name) return one;
  }
  static const GateResult none;
  return none;
}

}  // namespace flashmoe::workflow
