// The table of gates. A gate is one row, and the file the row is in; every command that runs, lists or explains gates
// walks the table.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workflow/project/project.hpp"
#include "workflow/verdict/gate_result.hpp"

namespace flashmoe::workflow {

struct GateContext;

enum class GateNeeds {
  nothing,   // it is the one that says what is missing
  device,    // the device can run something
  runnables  // kernel and reference are built
};

struct Gate {
  const char* name;
  const char* about;  // what it asks, for the manual; lines of at most 100 characters
  GateNeeds needs;
  double (*expected_seconds)(const Project& project);  // where no record says how long it takes
  GateResult (*run)(GateContext& context);
  bool degraded_goes_on = false;  // inconclusive is worth a word, not a stop
  bool judges_kernel = false;     // its failure is the kernel's: what git bisect looks for
  bool shows_what_is_ok = false;  // its good findings are figures people want to see
  // Set for one that explains what gates before it came to: why there is nothing to explain; empty: there is. It runs
  // behind a gate that does not hold, too, and leaves the verdict as it is, unless there is no explanation.
  std::string (*nothing_to_explain)(std::span<const GateResult> before) = nullptr;
};

// In the order in which they run.
[[nodiscard]] std::span<const Gate* const> all_gates();
[[nodiscard]] const Gate* find_gate(std::string_view name);
[[nodiscard]] std::vector<std::string> gate_names();

}  // namespace flashmoe::workflow
