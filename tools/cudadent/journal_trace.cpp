// cudadent journal export and import: records for other benches, and theirs.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <set>

#include "answer.hpp"
#include "journal_parts.hpp"
#include "workflow/journal/flashinfer_trace.hpp"
#include "workflow/journal/heading.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/output/output.hpp"
#include "workflow/project/project.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

using namespace workflow;

struct Flags {
  std::string project = ".";
  std::string format = flashinfer_trace_format;
  std::string file;
  JsonFlag json;
};

std::vector<std::string> input_names(const Flags& flags) {
  std::vector<std::string> names;
  const auto project = load_project(flags.project);
  if (!project) return names;
  for (const TensorSpec& tensor : project->tensors) {
    if (tensor.role == TensorRole::input) names.push_back(tensor.name);
  }
  return names;
}

int run_export(const Flags& flags) {
  const auto records = Journal(flags.project).read();
  if (!records) return fail("journal", flags.json, records.error());
  const ExportedTraces exported = export_traces(*records, input_names(flags));
  if (flags.json) {
    std::cout << traces_json(answer_of("journal", flags.json, 0, "", "cudadent journal"), exported);
    return 0;
  }
  for (const std::string& line : exported.lines) std::cout << line << "\n";
  std::cerr << fmt::format("{} traces ({}); {} gate runs were not timed and are left out\n", exported.lines.size(),
                           flashinfer_trace_schema, exported.not_told);
  return 0;
}

// All of a file or nothing of it.
Result<std::vector<Record>> read_traces(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Diagnostic{.message = path + " cannot be read", .fix = "ls -l " + path, .code = codes::usage_trace};
  std::vector<Record> records;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto record = record_of_trace(line);
    if (!record) {
      Diagnostic problem = record.error();
      problem.file = path;
      problem.line = number;
      return problem;
    }
    records.push_back(std::move(*record));
  }
  return records;
}

// Traces that the journal has already.
Result<std::set<std::string>> known_traces(const Journal& journal) {
  const auto headings = journal.headings();
  if (!headings) return headings.error();
  std::set<std::string> known;
  for (const Heading& heading : *headings) {
    if (heading.kind != TraceRecord::kind) continue;
    const auto record = journal.load(heading);
    if (!record) return record.error();
    if (const auto* trace = record->as<TraceRecord>()) known.insert(trace->trace);
  }
  return known;
}

int run_import(const Flags& flags) {
  auto records = read_traces(flags.file);
  if (!records) return fail("journal", flags.json, records.error());
  Journal journal(flags.project);
  auto known = known_traces(journal);
  if (!known) return fail("journal", flags.json, known.error());
  std::size_t added = 0;
  for (Record& record : *records) {
    if (!known->insert(record.as<TraceRecord>()->trace).second) continue;
    if (const auto written = journal.append(std::move(record)); !written)
      return fail("journal", flags.json, written.error());
    ++added;
  }
  const std::string next = "cudadent journal --kind trace";
  if (flags.json) {
    std::cout << imported_json(answer_of("journal", flags.json, 0, "", next), records->size(), added);
  } else {
    std::cout << last_line(fmt::format("{} traces read, {} new", records->size(), added), next);
  }
  return 0;
}

constexpr const char* export_manual =
    R"(Prints gate runs in the format of another bench, one JSON object a line: a Trace of FlashInfer-Bench, with the
fields of its commit 40e6ca7 (2026-04-30). One for each workload that was timed on a clock, with its latency, its
baseline's and their ratio; one for a run that does not build, crashes, hangs or is wrong. Runs on a virtual GPU have
no latency and are left out; imported traces come back as they were. The largest relative error is not on record and
reads NaN.

Examples:
  cudadent journal export --as flashinfer-trace > traces.jsonl)";

constexpr const char* import_manual =
    R"(Takes evaluations of another bench into the journal, as records of kind "trace" that claim nothing of this machine:
no evidence, never known good, no part of any verdict. Every line has to be a Trace as FlashInfer-Bench's commit
40e6ca7 (2026-04-30) has it, or nothing is taken. A trace that is there already is not taken again.

Examples:
  cudadent journal import --as flashinfer-trace traces.jsonl)";

Option format_option(Flags& flags) {
  return {.names = "--as",
          .value = &flags.format,
          .about = "The format",
          .shows_default = true,
          .choices = {flashinfer_trace_format}};
}

Option project_option(Flags& flags) {
  return {.names = "--project",
          .value = &flags.project,
          .about = "Directory with cudadent.toml",
          .shows_default = true,
          .is_directory = true};
}

}  // namespace

Command journal_export_part() {
  auto flags = std::make_shared<Flags>();
  return {.name = "export",
          .about = "Print gate runs in the format of another bench",
          .manual = export_manual,
          .options = {format_option(*flags), project_option(*flags), json_option(flags->json, "As one JSON answer")},
          .run = [flags] { return run_export(*flags); }};
}

Command journal_import_part() {
  auto flags = std::make_shared<Flags>();
  return {.name = "import",
          .about = "Take evaluations of another bench into the journal",
          .manual = import_manual,
          .options = {{.names = "FILE", .value = &flags->file, .about = "One trace a line", .required = true},
                      format_option(*flags),
                      project_option(*flags),
                      json_option(flags->json, "As JSON on stdout")},
          .run = [flags] { return run_import(*flags); }};
}

}  // namespace flashmoe::tools
