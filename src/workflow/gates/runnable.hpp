// What the host can run, from what a project declares.
#pragma once

#include <string>

#include "support/result.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

[[nodiscard]] Runnable library_runnable(const BuiltCallable& built, const std::string& label, int threads = 1);
// Hashes the file now: what is loaded later must be the same.
[[nodiscard]] Result<Runnable> python_runnable(const Project& project, const Callable& callable,
                                               const std::string& label, int threads = 1);

}  // namespace flashmoe::workflow
