// Gate 0 for one project on one device: what it needs must be there; the rest is at most worth a warning.
#pragma once

#include "workflow/device/selector.hpp"
#include "workflow/gates/gate.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

[[nodiscard]] GateResult run_environment_gate(const Project& project, const DeviceSelector& device);

extern const Gate environment_gate;

}  // namespace flashmoe::workflow
