// Running a recorded gate run or comparison again: the same commit in a worktree of its own, the same command, seeds
// and inputs; then what came out differently.
#pragma once

#include <string>

#include "support/progress.hpp"
#include "support/result.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/verdict/verdict.hpp"

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
  [[nodiscard]] Outcome outcome() const {
    if (!same_verdict) return Outcome::fails;
    return exact ? Outcome::holds : Outcome::inconclusive;
  }
};

[[nodiscard]] Result<Reproduction> reproduce(const ReproduceRequest& request, Progress& progress);

}  // namespace flashmoe::workflow
