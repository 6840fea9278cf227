// What a record says about the machine and the tree it was made on. Facts that cannot be learned are null, never a
// reason to lose the record.
#pragma once

#include <string>

#include "support/json.hpp"

namespace flashmoe::workflow {

// host, cpu, cores, memory_gib, kernel, compilers, git. Asked once per process.
[[nodiscard]] const Json& machine_facts();

struct TreeState {
  std::string commit;  // empty: no repository
  bool dirty = false;  // tracked files differ from the commit
};
[[nodiscard]] TreeState tree_state(const std::string& directory);

// {"machine": $, "agent": $, "total": $} of `seconds` at these prices per hour.
[[nodiscard]] Json cost_of(double seconds, double machine_per_hour, double agent_per_hour);

}  // namespace flashmoe::workflow
