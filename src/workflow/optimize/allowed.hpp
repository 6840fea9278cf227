// What a proposal may change: the kernel and the point, nothing that judges.
#pragma once

#include <set>
#include <string>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/trial/snapshot.hpp"

namespace flashmoe::workflow {

// The files of the reference and of the baseline, and every file of the project that one of them names: headers,
// modules. Paths in the project. A file is named where its name stands; what is named by chance is protected too.
[[nodiscard]] std::set<std::string> judging_files(const Project& project);

// The kernel's sources, headers that no judge names, and point.toml. Everything else is refused before it is built, the
// names of judges' modules that do not exist yet included.
[[nodiscard]] Result<Done> check_allowed(const Project& project, const FileChanges& files);

}  // namespace flashmoe::workflow
