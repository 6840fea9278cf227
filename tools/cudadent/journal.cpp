// cudadent journal: what was done, what it showed and what it cost.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/journal/fields.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
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
  bool json = false;
};

int fail(const Diagnostic& diagnostic, int code) {
  std::cerr << "cudadent journal: " << diagnostic.to_string() << "\n";
  return code;
}

void print_json(const Json& json) {
  std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

int list(const Flags& flags, const std::vector<Json>& records, const std::string& kind) {
  std::vector<Json> chosen;
  for (const Json& record : records) {
    if (!flags.run.empty() && text_of(record, "run") != flags.run) continue;
    if (!kind.empty() && text_of(record, "kind") != kind) continue;
    chosen.push_back(record);
  }
  if (flags.last > 0 && chosen.size() > static_cast<std::size_t>(flags.last)) {
    chosen.erase(chosen.begin(), chosen.end() - flags.last);
  }
  if (flags.json) {
    print_json(chosen);
    return 0;
  }
  if (chosen.empty()) {
    std::cout << "no records\n";
    return 0;
  }
  std::cout << list_header() << "\n";
  for (const Json& record : chosen) std::cout << list_line(record) << "\n";
  return 0;
}

int compare(const Flags& flags, const Journal& journal) {
  const auto a = journal.find(flags.compare[0]);
  if (!a) return fail(a.error(), 2);
  const auto b = journal.find(flags.compare[1]);
  if (!b) return fail(b.error(), 2);
  const Json difference = side_by_side(*a, *b);
  if (flags.json) {
    print_json(difference);
  } else {
    std::cout << side_by_side_text(difference);
  }
  return 0;
}

int summarise(const Flags& flags, const std::vector<Json>& records) {
  const auto run = find_run(records, flags.summary);
  if (!run) return fail(run.error(), 2);
  std::optional<Project> project;
  if (auto loaded = load_project(flags.project)) project = std::move(*loaded);
  const Json summary = run_summary(records, *run, project);
  if (flags.json) {
    print_json(summary);
  } else {
    std::cout << markdown_of(summary);
  }
  return 0;
}

int keep(const Flags& flags, Journal& journal) {
  const auto record = journal.find(flags.keep);
  if (!record) return fail(record.error(), 2);
  const auto good = known_good_of(*record);
  if (!good) return fail(good.error(), 1);
  const auto written = journal.append(*good);
  if (!written) return fail(written.error(), 1);
  if (flags.json) {
    print_json(*written);
  } else {
    fmt::print("known good  {}  record {}\n", (*written)["commit"].get<std::string>(),
               (*written)["id"].get<std::string>());
  }
  return 0;
}

int run(const Flags& flags) {
  Journal journal(flags.project);
  if (!flags.keep.empty()) return keep(flags, journal);
  if (!flags.compare.empty()) return compare(flags, journal);
  int damaged = 0;
  const auto records = journal.read(&damaged);
  if (!records) return fail(records.error(), 1);
  if (damaged > 0) {
    std::cerr << fmt::format(
        "cudadent journal: {} line{} of {} cannot be read (a writer was killed); the rest is whole\n", damaged,
        damaged == 1 ? "" : "s", journal.path());
  }
  if (!flags.show.empty()) {
    const auto record = journal.find(flags.show);
    if (!record) return fail(record.error(), 2);
    print_json(*record);
    return 0;
  }
  if (!flags.summary.empty()) return summarise(flags, *records);
  return list(flags, *records, flags.known_good ? "known_good" : flags.kind);
}

}  // namespace

void add_journal(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("journal", "What was done, what it showed and what it cost");
  command->footer(
      "Records are lines of .cudadent/records.jsonl: appended, never changed, whole also after a crash. ID is the\n"
      "beginning of a record's id; RUN is the name of a run or the id of one of its records.\n\n"
      "Examples:\n"
      "  cudadent journal                       the list\n"
      "  cudadent journal --summary 2026-11-15  Markdown: before and after, changes, time, cost, next goals\n"
      "  cudadent journal --compare 3fa2 91c0   two records side by side\n"
      "  cudadent journal --keep 3fa2           remember its commit and recipe as known good\n"
      "  cudadent reproduce 3fa2                run it again");
  command->add_option("project,--project", flags->project, "Directory with cudadent.toml")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--run", flags->run, "Only this run");
  command->add_option("--kind", flags->kind, "Only this kind")
      ->check(CLI::IsMember({"gate", "compare", "selftest", "known_good", "reproduce"}));
  command->add_option("--last", flags->last, "Only the last N")->check(CLI::PositiveNumber);
  const std::vector<CLI::Option*> one_of{
      command->add_option("--show", flags->show, "One record, as JSON")->type_name("ID"),
      command->add_option("--compare", flags->compare, "Two records side by side")->expected(2)->type_name("ID"),
      command->add_option("--summary", flags->summary, "The summary of a run, as Markdown")->type_name("RUN"),
      command->add_option("--keep", flags->keep, "Keep the record's commit and recipe as known good")->type_name("ID"),
      command->add_flag("--known-good", flags->known_good, "The known-good commits")};
  for (CLI::Option* option : one_of) {
    for (CLI::Option* other : one_of) {
      if (other != option) option->excludes(other);
    }
  }
  command->add_flag("--json", flags->json, "As JSON on stdout");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
