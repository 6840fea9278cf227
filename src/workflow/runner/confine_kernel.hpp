// What a kernel's process may read: toolchain, interpreter, and its project. It writes to its outputs alone, which are
// memory that it inherits.
#pragma once

#include "support/confinement.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

[[nodiscard]] Confinement confinement_of(const Project& project, const Runnable& runnable);

}  // namespace flashmoe::workflow
