// Who proposes changes, and what a proposal is. A person, the rules, a search and an agent come through the same door.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/project/project.hpp"
#include "workflow/trial/snapshot.hpp"
#include "workflow/verdict/counter_change.hpp"

namespace flashmoe::workflow {

struct OptimizeReport;

struct Proposal {
  std::string proposer{};    // "rules", "search", "person", an agent's command
  std::string hypothesis{};  // "splits 1 -> 4: the grid is too small"
  std::string rule{};        // of the advice it follows; empty: none
  std::string phase{};
  std::optional<CounterChange> predicted{};
  FileChanges files{};
};

// Where the loop stands when it asks.
struct LoopState {
  std::string side;                   // "cpu", "cuda"
  const Project& project;             // of the current version, in a worktree of its own
  const std::vector<Advice>& advice;  // the primary bottleneck first; empty on a device without counters
  const ProfileRun& profile;
  const OptimizeReport& report;  // what was tried, and what came of it
};

// The next change, one; none: there is nothing more to propose. An error is a failure of the proposer.
using Propose = std::function<Result<std::optional<Proposal>>(const LoopState& state)>;

// Moves of one tunable each, with the one other that the rules then demand: those that the advice asks for, bottleneck
// after bottleneck, each foretelling what the advice does; then all of them as neighbours, the nearest of every tunable
// first, which foretell nothing.
// `side` is "cpu" or "cuda": tunables of the other side are left alone.
[[nodiscard]] std::vector<Proposal> propose_moves(const Project& project, const std::vector<Advice>& advice,
                                                  const std::string& side);

}  // namespace flashmoe::workflow
