// VGPU_CLOCK=predicted: launches take on the virtual clock what `cudadent predict` says of them, so that a program's
// own benchmark prints predictions. The driver knows nothing of the model. It hands the report of a launch, and the
// cubin that ptxas makes of the PTX that ran, to a program, as it hands PTX to ptxas: VGPU_PREDICTOR names it, else it
// is cudadent on PATH.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "vgpu/driver/module.hpp"

namespace flashmoe::vgpu::driver {

// `report`: of the launch, with counters and paths. At the boost clock, with what a launch adds in a stream. Nothing:
// not predicted, and the log says why. What was asked before is not asked again.
[[nodiscard]] std::optional<double> predicted_ns(const nlohmann::ordered_json& report, const Function& function);

}  // namespace flashmoe::vgpu::driver
