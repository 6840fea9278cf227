// The CUDA half of the build gate: are the declared instances in the cubins, and do they fit the GPU?
#pragma once

#include <vector>

#include "workflow/compile/cuda_compile.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

// Findings and data of all targets; pure, so that tests need no compiler.
void check_cuda_targets(const Project& project, const std::vector<CompiledTarget>& targets, GateResult& result);

}  // namespace flashmoe::workflow
