// What to type after a gate run: one exact command.
#pragma once

#include <cstdint>
#include <string>

#include "workflow/gates/options.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/verdict.hpp"

namespace flashmoe::workflow {

struct GateRun;

// Where a project stands on one device, after a run or as a record of one says.
struct Standpoint {
  std::string device{};
  Outcome outcome = Outcome::could_not_run;
  std::string code{};
  std::uint64_t seed = 0;
  bool is_whole = false;  // no gate was left out on purpose
};

[[nodiscard]] std::string next_command(const Project& project, const Standpoint& at);
[[nodiscard]] std::string next_command(const Project& project, const GateRun& run, const GateOptions& options,
                                       std::uint64_t seed);
// " path/to/project" as a shell reads it; empty when it is the working directory.
[[nodiscard]] std::string project_argument(const std::string& directory);

}  // namespace flashmoe::workflow
