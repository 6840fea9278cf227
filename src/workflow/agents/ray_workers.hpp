// A run whose candidates are counted by tasks of a Ray cluster: one that is started for it on this machine, on loopback
// alone, or the user's own. Decisions are taken here, by shard 0 (workflow/optimize/shard.hpp).
#pragma once

#include <string>

#include "support/result.hpp"
#include "workflow/optimize/optimize.hpp"

namespace flashmoe::workflow {

// `workers`: empty, as many as there are cores; a number of them; or the address of a cluster.
[[nodiscard]] Result<OptimizeReport> optimize_with_ray(OptimizeRequest request, const std::string& workers);

}  // namespace flashmoe::workflow
