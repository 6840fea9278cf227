// cudadent journal: what was done, what it showed and what it cost.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/journal/record.hpp"
#include "workflow/output/output.hpp"
#include "workflow/report/summary.hpp"

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
  bool json = false;
};

int fail(const Diagnostic& diagnostic, int code) {
  std::cerr << "cudadent journal: " << diagnostic.to_string() << "\n";
  return code;
}

int list(const Flags& flags, const std::vector<Record>& records, const std::string& kind) {
  std::vector<Record> chosen;
  for (const Record& record : records) {
    if (!flags.run.empty() && record.run != flags.run) continue;
    if (!kind.empty() && record.kind != kind) continue;
    chosen.push_back(record);
  }
  if (flags.last > 0 && chosen.size() > static_cast<std::size_t>(flags.last)) {
    chosen.erase(chosen.begin(), chosen.end() - flags.last);
  }
  if (flags.json) {
    std::cout << records_json(chosen);
    return 0;
  }
  if (chosen.empty()) {
    std::cout << "no records\n";
    return 0;
  }
  std::cout << list_header() << "\n";
  for (const Record& record : chosen) std::cout << list_line(record) << "\n";
  return 0;
}

int compare(const Flags& flags, const Journal& journal) {
  const auto a = journal.find(flags.compare[0]);
  if (!a) return fail(a.error(), 2);
  const auto b = journal.find(flags.compare[1]);
  if (!b) return fail(b.error(), 2);
  const SideBySide difference = side_by_side(*a, *b);
  std::cout << (flags.json ? side_by_side_json(difference) : side_by_side_text(difference));
  return 0;
}

int summarise(const Flags& flags, const std::vector<Record>& records) {
  const auto run = find_run(records, flags.summary);
  if (!run) return fail(run.error(), 2);
  std::optional<Project> project;
  if (auto loaded = load_project(flags.project)) project = std::move(*loaded);
  const RunSummary summary = run_summary(records, *run, project);
  std::cout << (flags.json ? summary_json(summary) : markdown_of(summary));
  return 0;
}

int side_by_side_runs(const Flags& flags, const std::vector<Record>& records) {
  std::optional<Project> project;
  if (auto loaded = load_project(flags.project)) project = std::move(*loaded);
  const auto runs = all_runs(records, project);
  std::cout << (flags.json ? runs_json(runs) : runs_markdown(runs));
  return 0;
}

int keep(const Flags& flags, Journal& journal) {
  const auto record = journal.find(flags.keep);
  if (!record) return fail(record.error(), 2);
  const auto good = known_good_of(*record);
  if (!good) return fail(good.error(), 1);
  const auto written = journal.append(*good);
  if (!written) return fail(written.error(), 1);
  std::cout << (flags.json ? record_json(*written)
                           : fmt::format("known good  {}  record {}\n", *written->commit, written->id));
  return 0;
}

int check(const Flags& flags, const JournalState& state, const std::vector<Record>& records) {
  if (flags.json) {
    std::cout << journal_state_json(state, records);
  } else {
    for (const std::string& problem : state.problems) std::cout << problem << "\n";
    for (const std::string& note : state.notes) std::cout << note << "\n";
    std::cout << fmt::format("{}: {} records, {}\n", state.problems.empty() ? "holds" : "does not hold", records.size(),
                             state.problems.empty() ? "each as it was written" : "not as they were written");
  }
  return state.problems.empty() ? 0 : 1;
}

int run(const Flags& flags) {
  Journal journal(flags.project);
  if (!flags.keep.empty()) return keep(flags, journal);
  if (!flags.compare.empty()) return compare(flags, journal);
  JournalState state;
  const auto records = journal.read(&state);
  if (!records) return fail(records.error(), 1);
  if (flags.check) return check(flags, state, *records);
  if (state.damaged > 0) {
    std::cerr << fmt::format(
        "cudadent journal: {} line{} of {} cannot be read (a writer was killed); the rest is whole\n", state.damaged,
        state.damaged == 1 ? "" : "s", journal.path());
  }
  for (const std::string& problem : state.problems) std::cerr << "cudadent journal: " << problem << "\n";
  if (!flags.show.empty()) {
    const auto record = journal.find(flags.show);
    if (!record) return fail(record.error(), 2);
    std::cout << record_json(*record);
    return 0;
  }
  if (!flags.summary.empty()) return summarise(flags, *records);
  if (flags.runs) return side_by_side_runs(flags, *records);
  return list(flags, *records, flags.known_good ? KnownGoodRecord::kind : flags.kind);
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
                      {.names = "--json", .value = &flags->json, .about = "As JSON on stdout"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
