// cudadent status: where does this project stand, and what to type next? What bare `cudadent` does, too.
#include "workflow/report/status.hpp"

#include <filesystem>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string project = ".";
  JsonFlag json;
};

int run(const Flags& flags) {
  const auto project = workflow::load_project(flags.project);
  const bool is_empty = !project && project.error().code == workflow::codes::project_not_found;
  if (!project && !is_empty) return fail("status", flags.json, project.error());
  workflow::StatusReport report =
      workflow::nothing_here(std::filesystem::absolute(flags.project).lexically_normal().string());
  if (project) {
    const workflow::Journal journal(project->directory);
    workflow::JournalState state;
    const auto headings = journal.headings(&state);
    if (!headings) return fail("status", flags.json, headings.error());
    auto found =
        status_of(*project, *headings, [&](const workflow::Heading& heading) { return journal.load(heading); });
    if (!found) return fail("status", flags.json, found.error());
    report = std::move(*found);
    report.problems = std::move(state.problems);
  }
  if (flags.json) {
    std::cout << status_json(answer_of("status", flags.json, 0, "", report.next), report);
    return 0;
  }
  const std::string answer = report.project.empty() ? "nothing here yet"
                             : report.devices.empty()
                                 ? "never gated"
                                 : outcome_of(report.devices.front()) + " on " + report.devices.front().device;
  std::cout << status_text(report, may_colour(1)) << last_line(answer, report.next);
  return 0;
}

constexpr const char* manual =
    R"(Looks at the project's journal and runs nothing: the last verdict on each device, the last comparison, and the
command that goes on from there. In a directory without a project it says how to begin. Bare cudadent is the same.

Examples:
  cudadent
  cudadent status path/to/project
  cudadent status --json | jq -r .next)";

}  // namespace

Command status_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "status",
          .about = "Where does this project stand, and what to type next?",
          .manual = manual,
          .options = {{.names = "project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      json_option(flags->json, "The same as JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
