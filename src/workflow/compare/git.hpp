// git, asked by the workflow: without hooks and file monitors, since a repository may have some that run what they
// like.
#pragma once

#include <string>
#include <vector>

#include "support/result.hpp"

namespace flashmoe::workflow {

// What git printed, without the newline at its end. `environment` as in Command.
[[nodiscard]] Result<std::string> run_git(const std::string& directory, const std::vector<std::string>& arguments,
                                          const std::vector<std::string>& environment = {});

}  // namespace flashmoe::workflow
