// cudadent report: a run as a page, as Markdown and as a picture.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/progress.hpp"
#include "support/text.hpp"
#include "workflow/gates/next.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/output/output.hpp"
#include "workflow/report/files.hpp"
#include "workflow/report/run_report.hpp"

namespace flashmoe::tools {
namespace {

using namespace workflow;

struct Flags {
  std::string project = ".";
  ReportOptions options;
  std::string out;
  bool no_predict = false;
  bool quiet = false;
  JsonFlag json;
};

int run(const Flags& flags) {
  const auto project = load_project(flags.project);
  if (!project) return fail("report", flags.json, project.error());
  JournalState state;
  const auto records = Journal(project->directory).read(&state);
  if (!records) return fail("report", flags.json, records.error());
  for (const std::string& problem : state.problems) std::cerr << "cudadent report: " << printable(problem) << "\n";
  Progress progress(2 * prediction_steps, flags.quiet);
  ReportOptions options = flags.options;
  options.predict = !flags.no_predict;
  options.missing = state.missing;
  const auto report = make_report(*records, *project, options, progress);
  if (!report) return fail("report", flags.json, report.error());
  const std::filesystem::path default_folder = std::filesystem::path(project->directory) / ".cudadent" / "report";
  if (flags.out.empty()) keep_out_of_git(default_folder.parent_path());
  const auto files = write_report(*report, flags.out.empty() ? default_folder.string() : flags.out);
  if (!files) return fail("report", flags.json, files.error());
  const std::string next = fmt::format("cudadent journal{} --runs", project_argument(project->directory));
  if (flags.json) {
    std::cout << report_json(answer_of("report", flags.json, 0, "", next), *report, *files);
    return 0;
  }
  for (const ReportedFile& file : *files)
    std::cout << fmt::format("  {:<9} {:>8.1f} kB  {}\n", file.kind, static_cast<double>(file.bytes) / 1000,
                             printable(file.path));
  if (!report->not_predicted.empty()) std::cout << "  not predicted: " << printable(report->not_predicted) << "\n";
  std::cout << last_line(fmt::format("run {}: {} record{}", printable(report->summary.run), report->summary.records,
                                     report->summary.records == 1 ? "" : "s"),
                         next);
  return 0;
}

constexpr const char* manual =
    R"(Writes a run of the journal as three files: report.html, one page without anything from outside (no script, no font, no
request; light and dark); report.md, the summary as Markdown; report.svg, a picture to post.
The page has speed per iteration with intervals, the ladder of kept changes, what was refused and why, the gates, the
distributions of timed blocks, time and money. Every figure says on what it stands: measured, virtual (counted),
predicted or rehearsal. These are never mixed.
Of a run on a virtual GPU its first and its last version are predicted anew: roofline, limiter, what warps wait for,
hot lines of the source. That builds and runs them there, a few seconds each; --no-predict leaves it out.
Nothing is judged and no record is written.

Examples:
  cudadent report                        the last run
  cudadent report --run optimize-2026-11-15T05:12:46Z --out report
  cudadent report path/to/project --no-predict
  cudadent report --json | jq -r '.files[].path')";

}  // namespace

Command report_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "report",
          .about = "A run as a page, as Markdown and as a picture",
          .manual = manual,
          .options = {{.names = "project,--project",
                       .value = &flags->project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--run",
                       .value = &flags->options.run,
                       .about = "A run, or the id of one of its records (default: the last)",
                       .type_name = "RUN"},
                      {.names = "--out",
                       .value = &flags->out,
                       .about = "Directory for the files (default: .cudadent/report of the project)",
                       .type_name = "DIR"},
                      {.names = "--no-predict",
                       .value = &flags->no_predict,
                       .about = "Only what the journal says: nothing is built or run"},
                      json_option(flags->json, "What was written, as JSON on stdout"),
                      {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
