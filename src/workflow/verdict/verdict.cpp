#include "workflow/verdict/verdict.hpp"

#include <array>
#include <utility>

namespace flashmoe::workflow {
namespace {

constexpr std::array outcomes{std::pair{Outcome::holds, "holds"}, std::pair{Outcome::fails, "fails"},
                              std::pair{Outcome::inconclusive, "inconclusive"},
                              std::pair{Outcome::could_not_run, "could not run"}};

struct SeverityWords {
  Severity severity;
  const char* name;
  const char* mark;
  const char* colour;  // of the terminal: green, yellow, red
};
constexpr std::array severities{SeverityWords{Severity::ok, "ok", "✓", "32"},
                                SeverityWords{Severity::warning, "warning", "!", "33"},
                                SeverityWords{Severity::error, "error", "✗", "31"}};

const SeverityWords& words_of(Severity severity) {
  return severities[static_cast<std::size_t>(severity)];
}

}  // namespace

int exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::holds:
      return static_cast<int>(ExitCode::holds);
    case Outcome::fails:
      return static_cast<int>(ExitCode::fails);
    case Outcome::inconclusive:
      return static_cast<int>(ExitCode::inconclusive);
    case Outcome::could_not_run:
      break;
  }
  return static_cast<int>(ExitCode::could_not_run);
}

const char* name_of(Outcome outcome) {
  return outcomes[static_cast<std::size_t>(outcome)].second;
}

std::optional<Outcome> outcome_named(std::string_view name) {
  for (const auto& [outcome, word] : outcomes) {
    if (name == word) return outcome;
  }
  return std::nullopt;
}

const char* name_of(Severity severity) {
  return words_of(severity).name;
}

std::optional<Severity> severity_named(std::string_view name) {
  for (const SeverityWords& words : severities) {
    if (name == words.name) return words.severity;
  }
  return std::nullopt;
}

std::string mark_of(Severity severity, bool colour) {
  const SeverityWords& words = words_of(severity);
  return colour ? std::string("\033[") + words.colour + "m" + words.mark + "\033[0m" : words.mark;
}

}  // namespace flashmoe::workflow
