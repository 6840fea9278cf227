// cudadent journal: what was done, what it showed and what it cost.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "journal_parts.hpp"
#include "support/text.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/report/summary.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

using namespace workflow;

struct Flags {
  std::string project = ".";
  std::string run, kind, show, summary, keep;
  std::vector<std::string> compare;
  int last = 0;
  bool known_good = false;
  bool check = false;
  bool runs = false;
  JsonFlag json;
};

int fail(const Flags& flags, const Diagnostic& problem) {
  return tools::fail("journal", flags.json, problem);
}

Answer answer(const Flags& flags, const std::string& next, int exit_code = 0, const std::string& code = "") {
  return answer_of("journal", flags.json, exit_code, code, next);
}

// What can be run again is; else the list.
std::string next_after(const Record& record) {
  const bool has_recipe = record.as<GateRecord>() != nullptr || record.as<CompareRecord>() != nullptr ||
                          record.as<KnownGoodRecord>() != nullptr;
  return has_recipe ? "cudadent reproduce " + record.id : "cudadent journal";
}

std::vector<Heading> chosen_of(const Flags& flags, std::vector<Heading> headings) {
  const std::string kind = flags.known_good ? KnownGoodRecord::kind : flags.kind;
  std::erase_if(headings, [&](const Heading& heading) {
    return (!flags.run.empty() && heading.run != flags.run) || (!kind.empty() && heading.kind != kind);
  });
  if (flags.last > 0 && headings.size() > static_cast<std::size_t>(flags.last)) {
    headings.erase(headings.begin(), headings.end() - flags.last);
  }
  return headings;
}

int list_as_json(const Flags& flags, const Journal& journal, const std::vector<Heading>& chosen,
                 const std::string& next) {
  std::vector<Record> records;
  for (const Heading& heading : chosen) {
    auto record = journal.load(heading);
    if (!record) return fail(flags, record.error());
    records.push_back(std::move(*record));
  }
  std::cout << records_json(answer(flags, next), records);
  return 0;
}

int list(const Flags& flags, const Journal& journal, std::vector<Heading> headings) {
  const std::vector<Heading> chosen = chosen_of(flags, std::move(headings));
  const std::string next = chosen.empty() ? "cudadent gate" : "cudadent journal --show " + printable(chosen.back().id);
  if (flags.json) return list_as_json(flags, journal, chosen, next);
  if (!chosen.empty()) std::cout << list_header() << "\n";
  for (const Heading& heading : chosen) std::cout << list_line(heading) << "\n";
  std::cout << last_line(
      chosen.empty() ? "no records" : fmt::format("{} record{}", chosen.size(), chosen.size() == 1 ? "" : "s"), next);
  return 0;
}

int compare(const Flags& flags, const Journal& journal) {
  const auto a = journal.find(flags.compare[0]);
  if (!a) return fail(flags, a.error());
  const auto b = journal.find(flags.compare[1]);
  if (!b) return fail(flags, b.error());
  const SideBySide difference = side_by_side(*a, *b);
  std::cout << (flags.json ? side_by_side_json(answer(flags, next_after(*b)), difference)
                           : side_by_side_text(difference));
  return 0;
}

int summarise(const Flags& flags, const std::vector<Record>& records, std::uint64_t missing) {
  const auto run = find_run(records, flags.summary);
  if (!run) return fail(flags, run.error());
  std::optional<Project> project;
  if (auto loaded = load_project(flags.project)) project = std::move(*loaded);
  RunSummary summary = run_summary(records, *run, project);
  summary.missing = missing;
  std::cout << (flags.json ? summary_json(answer(flags, "cudadent journal --runs"), summary) : markdown_of(summary));
  return 0;
}

int side_by_side_runs(const Flags& flags, const std::vector<Record>& records) {
  std::optional<Project> project;
  if (auto loaded = load_project(flags.project)) project = std::move(*loaded);
  const auto runs = all_runs(records, project);
  const std::string next = runs.empty() ? "cudadent gate" : "cudadent journal --summary " + shell_word(runs.back().run);
  std::cout << (flags.json ? runs_json(answer(flags, next), runs) : runs_markdown(runs));
  return 0;
}

int keep(const Flags& flags, Journal& journal) {
  const auto record = journal.find(flags.keep);
  if (!record) return fail(flags, record.error());
  const auto good = known_good_of(*record);
  if (!good) return fail(flags, good.error());
  const auto written = journal.append(*good);
  if (!written) return fail(flags, written.error());
  const std::string next = next_after(*written);
  std::cout << (flags.json ? record_json(answer(flags, next), *written)
                           : last_line(fmt::format("known good: {}, record {}", *written->commit, written->id), next));
  return 0;
}

int check(const Flags& flags, const JournalState& state, const std::vector<Heading>& headings) {
  const bool holds = state.problems.empty();
  const int code = exit_code(holds ? Outcome::holds : Outcome::fails);
  const std::string next = "cudadent journal";
  if (flags.json) {
    std::cout << journal_state_json(answer(flags, next, code, holds ? "" : codes::journal_changed), state, headings);
  } else {
    for (const std::string& problem : state.problems) std::cout << problem << "\n";
    for (const std::string& note : state.notes) std::cout << note << "\n";
    std::cout << last_line(fmt::format("{}: {} records, {}", holds ? "holds" : "does not hold", headings.size(),
                                       holds ? "each as it was written" : "not as they were written"),
                           next);
  }
  return code;
}

int run(const Flags& flags) {
  Journal journal(flags.project);
  if (!flags.keep.empty()) return keep(flags, journal);
  if (!flags.compare.empty()) return compare(flags, journal);
  JournalState state;
  auto headings = flags.check ? journal.verified_headings(&state) : journal.headings(&state);
  if (!headings) return fail(flags, headings.error());
  if (flags.check) return check(flags, state, *headings);
  if (state.damaged > 0) {
    std::cerr << fmt::format(
        "cudadent journal: {} line{} of {} cannot be read (a writer was killed); the rest is whole\n", state.damaged,
        state.damaged == 1 ? "" : "s", journal.path());
  }
  for (const std::string& problem : state.problems) std::cerr << "cudadent journal: " << problem << "\n";
  if (!flags.show.empty()) {
    const auto record = journal.find(flags.show);
    if (!record) return fail(flags, record.error());
    std::cout << record_json(answer(flags, next_after(*record)), *record);
    return 0;
  }
  if (flags.summary.empty() && !flags.runs) return list(flags, journal, std::move(*headings));
  const auto records = journal.read();
  if (!records) return fail(flags, records.error());
  return flags.runs ? side_by_side_runs(flags, *records) : summarise(flags, *records, state.missing);
}

constexpr const char* manual =
    R"(Records are lines of .cudadent/records.jsonl: appended, never changed, whole also after a crash. ID is the
beginning of a record's id; RUN is the name of a run or the id of one of its records.

A record's id is the hash of its content, and each writer's records are a chain. Readers check both and name what
was changed, is missing, or was put there by somebody else; records from before there were chains are read, and
marked unchained. This is honesty against accidents and kernels, not against the owner of the files.

Examples:
  cudadent journal                       the list
  cudadent journal --summary 2026-11-15  Markdown: before and after, changes, bottlenecks, time, money, goals
  cudadent journal --runs                all runs side by side
  cudadent journal --compare 3fa2 91c0   two records side by side
  cudadent journal --check               is every record as it was written? exit code 1 when not
  cudadent journal --keep 3fa2           remember its commit and recipe as known good
  cudadent journal merge ../shard-1      take another journal's records in
  cudadent reproduce 3fa2                run it again)";

}  // namespace

Command journal_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "journal",
          .about = "What was done, what it showed and what it cost",
          .manual = manual,
          .options = {{.names = "project,--project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true,
                       .is_directory = true},
                      {.names = "--run", .value = &flags->run, .about = "Only this run"},
                      {.names = "--kind", .value = &flags->kind, .about = "Only this kind", .choices = record_kinds()},
                      {.names = "--last", .value = &flags->last, .about = "Only the last N", .is_positive = true},
                      {.names = "--show",
                       .value = &flags->show,
                       .about = "One record, as JSON",
                       .type_name = "ID",
                       .alternatives = "what"},
                      {.names = "--compare",
                       .value = &flags->compare,
                       .about = "Two records side by side",
                       .type_name = "ID",
                       .count = 2,
                       .alternatives = "what"},
                      {.names = "--summary",
                       .value = &flags->summary,
                       .about = "The summary of a run, as Markdown",
                       .type_name = "RUN",
                       .alternatives = "what"},
                      {.names = "--keep",
                       .value = &flags->keep,
                       .about = "Keep the record's commit and recipe as known good",
                       .type_name = "ID",
                       .alternatives = "what"},
                      {.names = "--known-good",
                       .value = &flags->known_good,
                       .about = "The known-good commits",
                       .alternatives = "what"},
                      {.names = "--runs",
                       .value = &flags->runs,
                       .about = "All runs side by side, as Markdown",
                       .alternatives = "what"},
                      {.names = "--check",
                       .value = &flags->check,
                       .about = "Is every record as it was written, and is none missing?",
                       .alternatives = "what"},
                      json_option(flags->json, "As JSON on stdout")},
          .run = [flags] { return run(*flags); },
          .parts = {journal_merge_part(), journal_export_part(), journal_import_part()}};
}

}  // namespace flashmoe::tools
