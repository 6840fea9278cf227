// arena: keep rules against each other on recorded candidates (docs/arena.md). Exit codes: 0 it is done, and a page
// that is checked is up to date; 1 the page is not; 2 usage; 4 it could not be done.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "plain.hpp"
#include "record.hpp"
#include "support/process.hpp"
#include "support/whole_file.hpp"
#include "table.hpp"
#include "workflow/runner/worker.hpp"

namespace {

using namespace flashmoe;

struct Options {
  std::string data = ARENA_DATA;
  std::string recording{};  // empty: DATA/recording.jsonl
  std::string rules{};      // empty: DATA/rules.toml
  std::string write{}, check{};
  int seeds = 20;
  bool json = false;
  arena::RecordOptions record{};

  [[nodiscard]] std::string in_data(const std::string& given, const char* name) const {
    return given.empty() ? (std::filesystem::path(data) / name).string() : given;
  }
};

int failed(const Diagnostic& problem) {
  std::cerr << "arena: " << problem.to_string() << "\n";
  return 4;
}

int record(const Options& options) {
  const auto tasks = arena::read_tasks(options.data);
  if (!tasks) return failed(tasks.error());
  Progress progress(static_cast<int>(tasks->size()));
  const auto done =
      arena::record_all(*tasks, options.in_data(options.recording, "recording.jsonl"), options.record, progress);
  return done ? 0 : failed(done.error());
}

int replay(const Options& options) {
  const auto tasks = arena::read_tasks(options.data);
  if (!tasks) return failed(tasks.error());
  const auto recording = arena::read_recording(options.in_data(options.recording, "recording.jsonl"), *tasks);
  if (!recording) return failed(recording.error());
  const auto rules = arena::read_rules(options.in_data(options.rules, "rules.toml"));
  if (!rules) return failed(rules.error());
  const auto recorded = arena::replay(*recording, *rules, {.seeds = options.seeds});
  const auto simulated = arena::replay(*recording, *rules, {.seeds = options.seeds, .noise = arena::Noise::simulated});
  const std::string tables = arena::tables_of(*recording, recorded, simulated);
  const std::string& page_file = options.write.empty() ? options.check : options.write;
  if (page_file.empty()) {
    std::cout << (options.json ? arena::json_of(*recording, recorded, simulated) : tables);
    return 0;
  }
  const auto page = whole_file(page_file);
  if (!page) return failed({.message = "cannot read the page", .file = page_file});
  const auto wanted = arena::page_with(*page, tables);
  if (!wanted) return failed(wanted.error());
  if (!options.write.empty()) std::ofstream(page_file) << *wanted;
  if (!options.write.empty() || *wanted == *page) return 0;
  std::cerr << "arena: " << page_file << " is not what the replay says today (fix: arena replay --write " << page_file
            << ")\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (workflow::is_worker_call(argc, argv)) return workflow::worker_main();
  if (argc == 3 && std::string(argv[1]) == "plain") return arena::plain_main(argv[2]);
  install_interrupt_handler();
  CLI::App app("Keep rules against each other on recorded candidates; no GPU is needed");
  app.require_subcommand(1);
  Options options;
  app.add_option("--data", options.data, "Folder with families/*.toml, shared.toml, rules.toml and recording.jsonl");
  app.add_option("--recording", options.recording, "Another recording than that of the data");
  CLI::App* record_command =
      app.add_subcommand("record", "Measure every candidate once: minutes on an idle machine, more on a busy one");
  record_command->add_option("--pairs", options.record.pairs, "Pairs of each honest candidate")
      ->check(CLI::Range(24, 1000));
  CLI::App* replay_command = app.add_subcommand("replay", "Let every rule decide about what was recorded: seconds");
  replay_command->add_option("--rules", options.rules, "Other rules than those of the data");
  replay_command->add_option("--seeds", options.seeds, "Runs of each task")->check(CLI::Range(1, 1000));
  replay_command->add_flag("--json", options.json, "Figures for programs");
  auto* write = replay_command->add_option("--write", options.write, "Put the tables into this page");
  replay_command->add_option("--check", options.check, "Say whether this page has these tables")->excludes(write);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return record_command->parsed() ? record(options) : replay(options);
}
