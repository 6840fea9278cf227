// cudadent reproduce: the same commit, command, seeds and inputs again; what came out differently?
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "commands.hpp"
#include "workflow/journal/fields.hpp"
#include "workflow/reproduce/reproduce.hpp"

namespace flashmoe::tools {
namespace {

struct Flags {
  workflow::ReproduceRequest request;
  bool json = false;
  bool quiet = false;
};

std::string shown(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

int run(Flags flags) {
  using workflow::text_of;
  std::error_code error;
  flags.request.executable = std::filesystem::read_symlink("/proc/self/exe", error).string();
  Progress progress(workflow::reproduce_steps, flags.quiet);
  const auto result = workflow::reproduce(flags.request, progress);
  progress.done();
  if (!result) {
    if (flags.json) {
      std::cout << Json{{"verdict", "could not run"}, {"problem", result.error().message}, {"fix", result.error().fix}}
                       .dump(2, ' ', false, Json::error_handler_t::replace)
                << "\n";
    }
    std::cerr << "cudadent reproduce: " << result.error().to_string() << "\n";
    return 1;
  }
  const Json& record = result->record;
  if (flags.json) {
    std::cout << record.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    return result->exit_code();
  }
  fmt::print("{}  record {}: {} then, {} now\n", text_of(record, "verdict"), text_of(record, "of"),
             text_of(record, "verdict_then"), text_of(record, "verdict_now"));
  fmt::print("then  {}\nnow   {}\n", text_of(record, "what_then"), text_of(record, "what_now"));
  if (!result->exact) fmt::print("note  the record was made on a changed tree; only its commit could be run again\n");
  if (record["differs"].empty()) fmt::print("nothing else differs: machine, tools and builds are the same\n");
  for (const Json& row : record["differs"]) {
    fmt::print("{}: {} then, {} now\n", text_of(row, "key"), shown(row["a"]), shown(row["b"]));
  }
  return result->exit_code();
}

}  // namespace

void add_reproduce(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("reproduce", "Run a recorded gate run or comparison again, exactly");
  command->footer(
      "The recorded commit is checked out into a worktree under .cudadent/, the recorded command runs there with the\n"
      "recorded seeds, and the verdicts are compared. What else differs (machine, compilers, hashes) is listed.\n"
      "Exit codes: 0 the same verdict, 1 another one or it could not run, 3 the same, but the record was made on a\n"
      "changed tree that no commit holds.\n\n"
      "Examples:\n"
      "  cudadent reproduce 3fa2\n"
      "  cudadent journal --known-good     what there is to come back to");
  command->add_option("record", flags->request.record, "The beginning of a record's id")->required()->type_name("RUN");
  command->add_option("--project", flags->request.project, "Directory with cudadent.toml")->capture_default_str();
  command->add_option("--limit", flags->request.limit_seconds, "Most seconds it may take")
      ->check(CLI::Range(1.0, 1e6))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "As JSON on stdout");
  command->add_flag("--quiet", flags->quiet, "No progress on stderr");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace flashmoe::tools
