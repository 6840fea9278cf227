// cudadent patterns: what earlier trials taught, and how it is handed on.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/text.hpp"
#include "support/whole_file.hpp"
#include "workflow/advise/patterns.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

using workflow::PatternTrial;

struct Flags {
  std::string project = ".";
  std::string exported, imported;
  bool learn = false;
  JsonFlag json;
};

Result<Done> write(const std::string& path, const std::vector<PatternTrial>& trials) {
  const std::string fresh = path + ".new";
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  std::ofstream stream(fresh, std::ios::binary);
  stream << patterns_text(trials);
  stream.close();
  if (stream) std::filesystem::rename(fresh, path, failed);
  if (!stream || failed) {
    return Diagnostic{.message = path + " cannot be written",
                      .fix = "check space and permissions",
                      .code = workflow::codes::environment_disk};
  }
  return Done{};
}

// What the project knows, with what the flags add to it; written where something was added.
Result<std::vector<PatternTrial>> known(const Flags& flags, const workflow::Project& project) {
  auto trials = workflow::patterns_of(project);
  if (!trials) return trials;
  std::vector<PatternTrial> added;
  if (flags.learn) {
    const auto records = workflow::Journal(project.directory).read();
    if (!records) return records.error();
    added = workflow::trials_in(*records);
  }
  if (!flags.imported.empty()) {
    const auto text = whole_file(flags.imported);
    if (!text) {
      return Diagnostic{.message = flags.imported + " cannot be read",
                        .fix = "give a file that cudadent patterns --export wrote",
                        .code = workflow::codes::patterns_unreadable};
    }
    auto read = workflow::read_patterns(*text, flags.imported);
    if (!read) return read;
    auto both = workflow::merged(added, *read);
    if (!both) return both;
    added = std::move(*both);
  }
  if (!flags.learn && flags.imported.empty()) return trials;
  trials = workflow::merged(*trials, added);
  if (!trials) return trials;
  if (const auto written = write(workflow::patterns_file(project), *trials); !written) return written.error();
  return trials;
}

std::string text_of(const std::vector<workflow::PatternCount>& counts) {
  if (counts.empty()) return "Nothing is learned yet: no loop has left records here, or --learn was never said.\n";
  std::string text = fmt::format("  {:<34} {:>5} {:>5} {:>6}  {:<22} {}\n", "rule, and its moves", "tried", "kept",
                                 "lasted", "hit rate, 95 %", "gain of those kept");
  std::string evidence;
  for (const workflow::PatternCount& one : counts) {
    if (one.evidence != evidence)
      text += fmt::format("{}\n", one.evidence.empty() ? "not recorded" : printable(one.evidence));
    evidence = one.evidence;
    const std::string name =
        one.move.empty() ? (one.rule.empty() ? "(no rule: neighbours)" : one.rule) : "  " + one.move;
    text += fmt::format("  {:<34} {:>5} {:>5} {:>6}  {:.2f} [{:.2f}, {:.2f}]      {}\n", printable(name), one.trials,
                        one.kept, one.lasted, one.hits.rate, one.hits.lower, one.hits.upper,
                        one.kept > 0 ? fmt::format("{:.2f}x", one.mean_gain) : "-");
  }
  return text;
}

std::string text_of(const std::vector<workflow::Practice>& practices) {
  std::string text = "Shipped, and what each moves:\n";
  for (const workflow::Practice& one : practices)
    text += fmt::format("  {}: {}. Moves: {}{}\n", one.name, one.says, one.moves,
                        one.rule.empty() ? "" : fmt::format(" (rule {})", one.rule));
  return text;
}

int run(const Flags& flags) {
  const auto project = workflow::load_project(flags.project);
  if (!project) return fail("patterns", flags.json, project.error());
  const auto trials = known(flags, *project);
  if (!trials) return fail("patterns", flags.json, trials.error());
  if (!flags.exported.empty()) {
    if (const auto written = write(flags.exported, *trials); !written)
      return fail("patterns", flags.json, written.error());
  }
  const std::vector<workflow::PatternCount> counts = workflow::counts_of(*trials);
  const std::string here = workflow::project_argument(project->directory);
  // What was learned from nothing is not there the second time either.
  const bool may_learn = trials->empty() && !flags.learn;
  const std::string next = may_learn ? "cudadent patterns" + here + " --learn" : "cudadent optimize" + here;
  if (flags.json) {
    std::cout << patterns_json(answer_of("patterns", flags.json, 0, "", next), *trials, counts, workflow::practices());
    return 0;
  }
  std::cout << text_of(counts) << text_of(workflow::practices())
            << last_line(fmt::format("{} trials are known here", trials->size()), next);
  return 0;
}

constexpr const char* manual =
    R"(How often a change that a rule asked for was kept, whether its value was still there when the loop ended, and what
it gained: for each rule and each move, from records of cudadent optimize. Rates have exact intervals (Clopper and
Pearson), however few trials there are; trials on evidence of different kinds are never counted together.
--learn takes over what this project's journal shows into .cudadent/patterns.json. From then on advise and optimize rank
by it: what a change promises, times the chance that it is kept and lasts, (kept + 1) / (tried + 2) for a rule. Without
that file nothing is ranked by what was learned, and a loop goes the same way again.
--export and --import hand the file on: its content has a hash, every trial counts once, and a trial that two files tell
differently is named, and nothing is merged then. Below stand the patterns that are shipped, with what each moves.

Examples:
  cudadent patterns --learn
  cudadent patterns --export team.json
  cudadent patterns --import team.json --json)";

}  // namespace

Command patterns_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "patterns",
          .about = "What earlier trials taught: hit rate and gain of each rule and move",
          .manual = manual,
          .options = {{.names = "project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--learn",
                       .value = &flags->learn,
                       .about = "Take over what this project's journal shows",
                       .alternatives = "source"},
                      {.names = "--import",
                       .value = &flags->imported,
                       .about = "Take over what this file has",
                       .alternatives = "source"},
                      {.names = "--export", .value = &flags->exported, .about = "Write what is known into this file"},
                      json_option(flags->json, "The same as JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
