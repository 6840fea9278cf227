// A version of a kernel project: the working tree, another directory, or a commit in a worktree of its own under
// .cudadent/. The user's tree, index and branch are never touched.
#pragma once

#include <memory>
#include <string>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/compile/cpu_build.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/runner.hpp"

namespace flashmoe::workflow {

// Removes its worktree when it goes away. What a killed process left is removed by the next one that makes any.
class Worktree {
 public:
  // `project` is the directory of a kernel project inside a repository; `commit` any name git knows for a commit.
  [[nodiscard]] static Result<std::unique_ptr<Worktree>> make(const std::string& project, const std::string& commit);
  ~Worktree();
  Worktree(const Worktree&) = delete;
  Worktree& operator=(const Worktree&) = delete;

  [[nodiscard]] const std::string& commit() const { return commit_; }  // full hash
  // The kernel project inside the worktree.
  [[nodiscard]] const std::string& project_directory() const { return project_directory_; }
  // The text with its files named from the repository's root: the worktree will be gone when it is read.
  [[nodiscard]] std::string outlasting(const std::string& text) const;

 private:
  Worktree() = default;
  std::string path_, commit_, project_directory_;
};

struct Version {
  std::string name{};    // as the user gave it
  std::string commit{};  // empty for a directory that is no clean checkout
  bool dirty = false;
  Project project{};
  std::unique_ptr<Worktree> worktree{};  // empty: a directory of the user
};

// "." is the project itself; an existing directory with a cudadent.toml is that; anything else a commit.
[[nodiscard]] Result<Version> resolve_version(const Project& project, const std::string& name);

// Builds a callable of a version if it has to be built. `role` is kernel, reference or baseline. Build products go to
// the project the user works in, so that they outlive a worktree.
[[nodiscard]] Result<Runnable> make_runnable(const Project& project, const Callable& callable, const std::string& role,
                                             const std::string& label, const BuildOptions& options);

// Both versions must compute the same thing: the same tensors and the workload with the same values.
[[nodiscard]] Result<Done> check_comparable(const Version& base, const Version& candidate, const Workload& workload);

// Who judges the candidate, where both are comparable: workloads, tolerances and limits of `judge`, with the
// candidate's own point and scratch tensors, which are its own affair.
[[nodiscard]] Project judge_of(Project judge, const Project& candidate);

}  // namespace flashmoe::workflow
