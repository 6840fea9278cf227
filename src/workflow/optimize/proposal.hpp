// Who proposes changes, and what a proposal is. A person, the rules, a search and an agent come through the same door.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/result.hpp"
#include "workflow/advise/advise.hpp"
#include "workflow/project/project.hpp"
#include "workflow/trial/snapshot.hpp"
#include "workflow/verdict/counter_change.hpp"

namespace flashmoe::workflow {

struct Proposal {
  std::string proposer{};    // "rules", "search", an agent's name
  std::string hypothesis{};  // "splits 1 -> 4: the grid is too small"
  std::string rule{};        // of the advice it follows; empty: none
  std::string phase{};
  std::optional<CounterChange> predicted{};
  FileChanges files{};
};

// Where the loop stands when it asks.
struct LoopState {
  const Project& project;  // of the current version
  const std::vector<Advice>& advice;
};

// Moves of one tunable each, those that the advice asks for first, in its order; then all others.
[[nodiscard]] std::vector<Proposal> propose_moves(const LoopState& state);

// A proposal may change the kernel and the point, nothing that judges: the reference, the baseline, cudadent.toml,
// rules, anything outside the project or of the tool's own. Refused before it is built.
[[nodiscard]] Result<Done> check_allowed(const Project& project, const FileChanges& files);

}  // namespace flashmoe::workflow
