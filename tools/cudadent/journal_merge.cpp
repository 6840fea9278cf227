// cudadent journal merge: the records of several machines in one journal.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "answer.hpp"
#include "journal_parts.hpp"
#include "support/text.hpp"
#include "workflow/journal/merge.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

using namespace workflow;

struct Flags {
  std::string project = ".";
  std::vector<std::string> sources;
  JsonFlag json;
};

std::string merge_text(const MergeReport& report) {
  std::string text;
  for (const std::string& conflict : report.conflicts) text += "conflict: " + conflict + "\n";
  for (const std::string& line : report.left_out) text += "left out: " + line + "\n";
  for (const std::string& problem : report.state.problems) text += "problem: " + problem + "\n";
  return text;
}

int run(const Flags& flags) {
  const auto project = load_project(flags.project);
  const auto report = merge_journals(flags.project, project ? project->name : "", flags.sources);
  if (!report) return fail("journal", flags.json, report.error());
  const int code = exit_code(report->holds() ? Outcome::holds : Outcome::fails);
  const std::string next = "cudadent journal --check";
  if (flags.json) {
    std::cout << merge_json(
        answer_of("journal", flags.json, code, report->holds() ? "" : codes::journal_conflict, next), *report);
    return code;
  }
  std::cout << merge_text(*report)
            << last_line(fmt::format("{}: {} records of {} journals, {} new, {} known already",
                                     report->holds() ? "holds" : "does not hold", report->records, report->journals + 1,
                                     report->added, report->duplicates),
                         next);
  return code;
}

constexpr const char* manual =
    R"(Takes the records of other journals of this project into its own: shards of a run, a colleague's machine. A
record is known by the hash of its content, so merging again changes nothing, and the order in which journals are
named does not matter: records stand in the order of their times, each writer's in the order of its chain.
JOURNAL is a project's directory or a file records.jsonl. Records that contradict one another are kept and named;
what is not as it was written is left out and named, and either gives exit code 1. Refused before anything is
written: a symbolic link, the journal of another project, and a journal of one's own that does not hold.

Examples:
  cudadent journal merge ../shard-1 ../shard-2
  cudadent journal merge --project lead node*/records.jsonl)";

}  // namespace

Command journal_merge_part() {
  auto flags = std::make_shared<Flags>();
  return {.name = "merge",
          .about = "Take the records of other journals into this one",
          .manual = manual,
          .options = {{.names = "JOURNAL",
                       .value = &flags->sources,
                       .about = "A project's directory, or a file of records",
                       .required = true},
                      {.names = "--project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true,
                       .is_directory = true},
                      json_option(flags->json, "As JSON on stdout")},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
