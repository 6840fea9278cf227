// The virtual GPU's report of a launch, with its paths, as the model wants it.
#pragma once

#include <string>

#include "predict/ptx_run.hpp"
#include "support/result.hpp"

namespace flashmoe::workflow {

// `json`: one line of VGPU_REPORT, as LaunchReport::json keeps it. Refuses one without paths.
[[nodiscard]] Result<predict::PtxRun> ptx_run_from(const std::string& json);

}  // namespace flashmoe::workflow
