// cudadent agents: what agents with a shell are told in this project.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "workflow/agents/instructions.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  std::string action;
  std::string project = ".";
  JsonFlag json;
};

std::string line_of(const workflow::InstructionFile& file) {
  std::string state = workflow::name_of(file.before);
  if (file.before == workflow::SectionState::other_version) state += " (" + file.version + ")";
  return fmt::format("  {:<10} {}{}\n", file.file, file.written ? "written; it was " : "", state);
}

int run(const Flags& flags) {
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("agents", flags.json, project.error());
  const bool writes = flags.action == "init";
  const auto files = writes ? workflow::write_instructions(project->directory, CUDADENT_VERSION)
                            : workflow::check_instructions(project->directory, CUDADENT_VERSION);
  if (!files) return fail("agents", flags.json, files.error());
  const bool current = writes || std::ranges::all_of(*files, [](const workflow::InstructionFile& file) {
                         return file.before == workflow::SectionState::current;
                       });
  const std::string here = workflow::project_argument(project->directory);
  const std::string next = current ? "cudadent brief" + here : "cudadent agents init" + here;
  const std::string why = current ? "" : workflow::codes::agents_other_version;
  const int code = exit_code(current ? workflow::Outcome::holds : workflow::Outcome::fails);
  if (flags.json) {
    std::cout << instructions_json(answer_of("agents", flags.json, code, why, next), CUDADENT_VERSION, *files);
    return code;
  }
  for (const workflow::InstructionFile& file : *files) std::cout << line_of(file);
  std::cout << last_line(current ? "agents are told what this version does" : "not what this version says", next);
  return code;
}

constexpr const char* manual =
    R"(init writes AGENTS.md and SKILL.md into a project: how an agent with a shell drives the loop (brief, one change, try,
commit or put away), in a page. It is a section between two markers with the version of this binary. What stands outside
is yours and stays as it is; the same again changes nothing; a section of another version is replaced. A link, or markers
that do not pair, is refused, and nothing is written then.
check says whether both are there and of this version. Exit codes: 0 they are, 1 they are not, 2 refused.

Examples:
  cudadent agents init
  cudadent agents check path/to/project --json)";

}  // namespace

Command agents_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "agents",
          .about = "Tell agents with a shell how to work here: AGENTS.md, SKILL.md",
          .manual = manual,
          .options = {{.names = "action",
                       .value = &flags->action,
                       .about = "init: write the section; check: is it of this version?",
                       .required = true,
                       .choices = {"init", "check"}},
                      {.names = "project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      json_option(flags->json, "Each file and its state as JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
