// Kernels that pretend. Each is built and sent through the real gates, and must be refused where it should be; an
// honest kernel must pass the same way, or the refusals prove nothing.
#pragma once

#include <string>
#include <vector>

#include "support/progress.hpp"
#include "workflow/journal/selftest_record.hpp"

namespace flashmoe::workflow {

struct Cheat {
  std::string name;
  std::string what;           // what it does, as one clause
  std::string source;         // the body of the entry, and what stands before it
  std::string expected_gate;  // "correctness", "performance"; empty: honest, must pass
  double size = 1;            // of the results
};

[[nodiscard]] const std::vector<Cheat>& all_cheats();

// All of them, or those named. An entry that cannot be built or run at all is not as expected.
[[nodiscard]] std::vector<CheatOutcome> run_cheats(Progress& progress, const std::vector<std::string>& only = {});

}  // namespace flashmoe::workflow
