// An interrupted gate: by a person, or by a machine that goes away. Neither is a verdict on the kernel.
#pragma once

#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

void mark_stopped(GateResult& result);

}  // namespace flashmoe::workflow
