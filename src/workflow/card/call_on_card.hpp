// One call of a project's kernel on a card, judged and profiled: by CUPTI in the worker, else by ncu where it is
// installed, else without counters.
#pragma once

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/device/selector.hpp"
#include "workflow/gpu/profile.hpp"

namespace flashmoe::workflow {

[[nodiscard]] Result<ProfileRun> profile_call_on_card(const Project& project, const DeviceSelector& device,
                                                      const CountedCall& call, Progress& progress);

}  // namespace flashmoe::workflow
