// What every gate answers, and what records keep. A gate that could not run has failed, and says what to do.
#pragma once

#include <string>
#include <vector>

#include "support/json.hpp"

namespace flashmoe::workflow {

enum class Outcome { holds, fails, inconclusive, could_not_run };

// The exit codes people script against: 0 holds, 1 does not (or could not run), 2 usage, 3 inconclusive or degraded.
[[nodiscard]] int exit_code(Outcome outcome);
[[nodiscard]] const char* name_of(Outcome outcome);

enum class Severity { ok, warning, error };

struct Finding {
  Severity severity = Severity::ok;
  std::string group{};  // "compilers", "sm_89", "tiny"; findings of one group are shown together
  std::string what{};   // what was seen, with its value and the limit
  std::string where{};  // file:line, instance, workload and element; may be empty
  std::string fix{};    // the exact command, or the line to add or change; empty for ok
};

struct GateResult {
  std::string gate{};  // "environment", "build", "correctness", "performance"
  Outcome outcome = Outcome::could_not_run;
  std::string summary{};  // one line
  std::vector<Finding> findings{};
  Json data = Json::object();  // figures, samples, hashes: everything a record keeps
  double seconds = 0;
};

[[nodiscard]] Json to_json(const GateResult& result);

}  // namespace flashmoe::workflow
