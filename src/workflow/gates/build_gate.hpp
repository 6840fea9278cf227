// Gate 1: everything that can be known about a kernel before it runs. CPU callables become shared libraries; CUDA
// sources become cubins for every declared architecture, without any GPU, and the cubins are read and checked.
#pragma once

#include <map>
#include <string>

#include "support/progress.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

struct BuildGate {
  GateResult result;
  std::map<std::string, BuiltCallable> built;  // by role; C++ callables only
};

// Builds kernel, reference and baseline (what of them is C++), then every CUDA source for every architecture. Where the
// CUDA kernel is only a twin of the one that will run, no nvcc is no reason to stop.
[[nodiscard]] BuildGate run_build_gate(const Project& project, const BuildOptions& options, Progress& progress,
                                       bool cuda_is_twin = false);

extern const Gate build_gate;

}  // namespace flashmoe::workflow
