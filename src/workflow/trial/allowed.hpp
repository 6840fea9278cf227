// What a proposal may change: the kernel and the point, nothing that judges.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/project/project.hpp"
#include "workflow/trial/snapshot.hpp"

namespace flashmoe::workflow {

// The files of the reference and of the baseline, and every file of the project that one of them names: headers,
// modules. Paths in the project. A file is named where its name stands; what is named by chance is protected too.
[[nodiscard]] std::set<std::string> judging_files(const Project& project);

// The files there are that a proposal may change.
[[nodiscard]] std::vector<std::string> editable_files(const Project& project);

// The kernel's sources, headers that no judge names, and point.toml. Everything else is refused before it is built, the
// names of judges' modules that do not exist yet included.
[[nodiscard]] Result<Done> check_allowed(const Project& project, const FileChanges& files);

// Why a change touches what judges, by what it was and what it became, each as checked out: a judge's file or what the
// compiler reads with it, what lies beside one that is outside of the project, rules of advice, how files are checked
// out, or in cudadent.toml anything but the kernel's own (sources, flags, tunables, scratch, how it is launched).
// Empty: it does not. Who may change both at once moves the goal with the ball.
[[nodiscard]] std::string judging_change(const Project& before, const Project& after, const Snapshot& change);

}  // namespace flashmoe::workflow
