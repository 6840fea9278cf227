// Is what a session has just computed right? Asked of the reference, on the same inputs.
#pragma once

#include <optional>

#include "support/result.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

// The outputs of set 0. Unset: right; else the finding names the first wrong tensor. An error: the reference did not
// answer.
[[nodiscard]] Result<std::optional<Finding>> wrong_output(const Project& project, const Workload& workload,
                                                          const Session& ran, const Runnable& reference);

}  // namespace flashmoe::workflow
