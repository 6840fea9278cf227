// Running a recorded gate run or comparison again: the same commit in a worktree of its own, the same command, seeds
// and inputs; then what came out differently.
#pragma once

#include <string>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/record.hpp"

namespace flashmoe::workflow {

struct ReproduceRequest {
  std::string project = ".";
  std::string record;      // the beginning of its id; a known-good record stands for the one it was made of
  std::string executable;  // this tool
  double limit_seconds = 3600;
};

inline constexpr int reproduce_steps = 3;

struct Reproduction {
  bool same_verdict = false;
  bool exact = false;  // the record was made on a commit, not on a changed tree
  Record record{};
  [[nodiscard]] int exit_code() const { return !same_verdict ? 1 : exact ? 0 : 3; }
};

[[nodiscard]] Result<Reproduction> reproduce(const ReproduceRequest& request, Progress& progress);

}  // namespace flashmoe::workflow
