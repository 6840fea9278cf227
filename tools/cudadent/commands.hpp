// The table of commands: one row here, and one file each.
#pragma once

#include <vector>

#include "command.hpp"

namespace flashmoe::tools {

[[nodiscard]] Command status_command();
[[nodiscard]] Command brief_command();
[[nodiscard]] Command doctor_command();
[[nodiscard]] Command new_command();
[[nodiscard]] Command gate_command();
[[nodiscard]] Command profile_command();
[[nodiscard]] Command predict_command();
[[nodiscard]] Command run_command();
[[nodiscard]] Command advise_command();
[[nodiscard]] Command try_command();
[[nodiscard]] Command optimize_command();
[[nodiscard]] Command patterns_command();
[[nodiscard]] Command agents_command();
[[nodiscard]] Command compare_command();
[[nodiscard]] Command first_light_command();
[[nodiscard]] Command journal_command();
[[nodiscard]] Command report_command();
[[nodiscard]] Command reproduce_command();
[[nodiscard]] Command mcp_command();
[[nodiscard]] Command selftest_command();
[[nodiscard]] Command schema_command();
[[nodiscard]] Command completion_command();
[[nodiscard]] Command worker_command();

// In the order in which a newcomer meets them: --help lists them so.
[[nodiscard]] inline std::vector<Command> all_commands() {
  return {status_command(),      brief_command(),      doctor_command(), new_command(),       gate_command(),
          profile_command(),     predict_command(),    advise_command(), run_command(),       try_command(),
          optimize_command(),    patterns_command(),   agents_command(), mcp_command(),       compare_command(),
          first_light_command(), journal_command(),    report_command(), reproduce_command(), selftest_command(),
          schema_command(),      completion_command(), worker_command()};
}

}  // namespace flashmoe::tools
