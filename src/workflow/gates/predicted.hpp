// Gate 3 where there is no clock: what the kernel takes as predicted and, where the project names a CUDA baseline, how
// that stands to what the baseline takes as predicted on the same device. It is no verdict, whatever it says.
#pragma once

#include "workflow/gates/context.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

[[nodiscard]] GateResult predicted_performance(const GateContext& context);

// The project that cuda.baseline names, which solves the same; with the project's own inputs and tolerances.
[[nodiscard]] Result<Project> rival_of(const Project& project);

}  // namespace flashmoe::workflow
