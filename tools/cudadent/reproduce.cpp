// cudadent reproduce: the same commit, command, seeds and inputs again; what came out differently?
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "answer.hpp"
#include "commands.hpp"
#include "support/text.hpp"
#include "workflow/output/output.hpp"
#include "workflow/reproduce/reproduce.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::ReproduceRequest request;
  JsonFlag json;
  bool quiet = false;
};

void print_report(const workflow::Reproduction& result) {
  const auto& again = std::get<workflow::ReproduceRecord>(result.record.body);
  fmt::print("record {}: {} then, {} now\n", again.of, printable(again.verdict_then), printable(again.verdict_now));
  fmt::print("then  {}\nnow   {}\n", printable(again.what_then), printable(again.what_now));
  if (!result.exact) fmt::print("note  the record was made on a changed tree; only its commit could be run again\n");
  if (again.differs.empty()) fmt::print("nothing else differs: machine, tools and builds are the same\n");
  for (const workflow::Difference& row : again.differs) {
    fmt::print("{}\n",
               printable(row.key + ": " + workflow::text_of(row.a) + " then, " + workflow::text_of(row.b) + " now"));
  }
}

std::string code_of(const workflow::Reproduction& result) {
  if (!result.same_verdict) return workflow::codes::reproduce_differs;
  return result.exact ? "" : workflow::codes::reproduce_changed_tree;
}

int run(Flags flags) {
  std::error_code error;
  flags.request.executable = std::filesystem::read_symlink("/proc/self/exe", error).string();
  Progress progress(workflow::reproduce_steps, flags.quiet);
  const auto result = workflow::reproduce(flags.request, progress);
  progress.done();
  if (!result) return fail("reproduce", flags.json, result.error());
  const int code = exit_code(result->outcome());
  const auto& again = std::get<workflow::ReproduceRecord>(result->record.body);
  const std::string next = result->same_verdict ? "cudadent journal --keep " + again.of
                                                : "cudadent journal --compare " + again.of + " " + result->record.id;
  if (flags.json) {
    std::cout << record_json(answer_of("reproduce", flags.json, code, code_of(*result), next), result->record);
  } else {
    print_report(*result);
    fmt::print("{}", last_line(result->record.verdict, next));
  }
  return code;
}

constexpr const char* manual =
    R"(The recorded commit is checked out into a worktree under .cudadent/, the recorded command runs there with the
recorded seeds, and the verdicts are compared. What else differs (machine, compilers, hashes) is listed. Only
gate and compare are run, with options that are known; a record that is not as it was written is refused.
Exit codes: 0 the same verdict, 1 another one, 3 the same, but the record was made on a changed tree that no
commit holds, 4 it could not run.

Examples:
  cudadent reproduce 3fa2
  cudadent journal --known-good     what there is to come back to)";

}  // namespace

Command reproduce_command() {
  auto flags = std::make_shared<Flags>();
  return {.name = "reproduce",
          .about = "Run a recorded gate run or comparison again, exactly",
          .manual = manual,
          .options = {{.names = "record",
                       .value = &flags->request.record,
                       .about = "The beginning of a record's id",
                       .required = true,
                       .type_name = "RUN"},
                      {.names = "--project",
                       .value = &flags->request.project,
                       .about = "Directory with cudadent.toml",
                       .shows_default = true},
                      {.names = "--limit",
                       .value = &flags->request.limit_seconds,
                       .about = "Most seconds it may take",
                       .shows_default = true,
                       .range = {{1.0, 1e6}}},
                      json_option(flags->json, "As JSON on stdout"),
                      {.names = "--quiet", .value = &flags->quiet, .about = "No progress on stderr"}},
          .run = [flags] { return run(*flags); }};
}

}  // namespace flashmoe::tools
