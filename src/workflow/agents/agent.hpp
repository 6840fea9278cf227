// A command of the user's that proposes changes: an agent, a script. It works in a plain export of the current version,
// so that neither the user's tree nor their repository is in its reach by accident; what it is told and what it may
// answer is in docs/agents.md.
#pragma once

#include <chrono>
#include <string>

#include "workflow/optimize/proposal.hpp"

namespace flashmoe::workflow {

struct AgentOptions {
  std::string command{};    // for the shell
  std::string directory{};  // the user's project, which it may not write into; empty: nobody looks
  std::chrono::seconds limit{600};
};

[[nodiscard]] Propose propose_by_agent(AgentOptions options);

}  // namespace flashmoe::workflow
