// The words of a verdict: how a question ended, what was seen on the way, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flashmoe::workflow {

enum class Outcome { holds, fails, inconclusive, could_not_run };

// What people script against: the kernel holds, or it does not; the command line or cudadent.toml is wrong; it is not
// decided, degraded or interrupted; a machine, a tool or a file kept it from running.
enum class ExitCode { holds = 0, fails = 1, usage = 2, inconclusive = 3, could_not_run = 4 };

// The one way from a verdict to what the process exits with.
[[nodiscard]] int exit_code(Outcome outcome);
[[nodiscard]] const char* name_of(Outcome outcome);
[[nodiscard]] std::optional<Outcome> outcome_named(std::string_view name);

enum class Severity { ok, warning, error };

[[nodiscard]] const char* name_of(Severity severity);
[[nodiscard]] std::optional<Severity> severity_named(std::string_view name);
// "✓", "!" or "✗", painted if `colour`.
[[nodiscard]] std::string mark_of(Severity severity, bool colour);

struct Finding {
  Severity severity = Severity::ok;
  std::string group{};  // "compilers", "sm_89", "tiny"; findings of one group are shown together
  std::string what{};   // what was seen, with its value and the limit
  std::string where{};  // file:line, instance, workload and element; may be empty
  std::string fix{};    // the exact command, or the line to add or change; empty for ok
  std::string code{};   // of the kind of problem (codes.def); empty for ok
  bool operator==(const Finding&) const = default;
};

}  // namespace flashmoe::workflow
