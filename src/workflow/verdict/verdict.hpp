// The words of a verdict: how a question ended, what was seen on the way, and what to do about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace flashmoe::workflow {

enum class Outcome { holds, fails, inconclusive, could_not_run };

// The exit codes people script against: 0 holds, 1 does not (or could not run), 2 usage, 3 inconclusive or degraded.
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
  bool operator==(const Finding&) const = default;
};

}  // namespace flashmoe::workflow
