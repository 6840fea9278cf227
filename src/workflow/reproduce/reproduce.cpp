#include "workflow/reproduce/reproduce.hpp"

#include <chrono>
#include <memory>

#include "support/clock.hpp"
#include "support/process.hpp"
#include "support/text.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"
#include "workflow/reproduce/recipe.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

Result<Record> find_original(const Journal& journal, const std::string& id) {
  auto record = journal.find(id);
  if (!record) return record.error();
  if (const auto* good = record->as<KnownGoodRecord>()) record = journal.find(good->of);
  if (record && !is_usable(*record)) {
    return Diagnostic{.message = "record " + printable(record->id) + " is " + name_of(record->standing) + ": " +
                                 printable(record->standing_why),
                      .fix = "cudadent journal --check names what is not as it was written",
                      .code = codes::reproduce_impossible};
  }
  return record;
}

Result<Record> run_again(const ReproduceRequest& request, const std::vector<std::string>& recipe,
                         const std::string& directory, Progress& progress) {
  Command command;
  command.argv = {request.executable};
  command.argv.insert(command.argv.end(), recipe.begin(), recipe.end());
  command.argv.insert(command.argv.end(), {"--json", "--quiet"});
  command.directory = directory;
  command.limit = std::chrono::milliseconds(static_cast<long>(request.limit_seconds * 1e3));
  const auto finished = run_process(command, [&] { progress.update("running"); });
  if (!finished) return finished.error();
  auto answer = parse_record(finished->out);
  if (answer) return answer;
  std::string line;
  for (const std::string& word : recipe) line += " " + word;
  return Diagnostic{.message = "cudadent" + line + ": " + finished->describe() + ", no JSON came out" +
                               (finished->err.empty() ? "" : ": " + finished->err),
                    .fix = "run it by hand in " + directory,
                    .code = codes::reproduce_impossible};
}

const Recipe* stored_recipe(const Record& record) {
  const auto* comparison = record.as<CompareRecord>();
  return comparison != nullptr && comparison->recipe ? &*comparison->recipe : nullptr;
}

std::optional<Prices> prices_of(const Record& record) {
  if (const auto* run = record.as<GateRecord>()) return run->cost_per_hour;
  if (const auto* comparison = record.as<CompareRecord>()) return comparison->cost_per_hour;
  return std::nullopt;
}

}  // namespace

Result<Reproduction> reproduce(const ReproduceRequest& request, Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  progress.step("read the record");
  Journal journal(request.project);
  const auto then = find_original(journal, request.record);
  if (!then) return then.error();
  auto recipe = recipe_of(*then);
  if (!recipe) return recipe.error();
  const std::string commit = then->commit.value_or("");
  if (commit.empty()) {
    return Diagnostic{.message = "record " + then->id + " was made outside a repository: no commit to go back to",
                      .fix = "git init and commit the project; later runs can be reproduced",
                      .code = codes::reproduce_impossible};
  }
  if (!is_commit(commit)) {
    return Diagnostic{.message = "record " + then->id + ": '" + printable(commit) + "' is no commit",
                      .fix = "cudadent journal --check names what is not as it was written",
                      .code = codes::reproduce_impossible};
  }
  Reproduction result;
  const Recipe* stored = stored_recipe(*then);
  result.exact = !then->dirty.value_or(false) && (stored == nullptr || stored->exact.value_or(true));

  progress.step("worktree of " + commit.substr(0, 12), 2);
  std::unique_ptr<Worktree> worktree;
  std::string directory = request.project;
  if (then->as<CompareRecord>() != nullptr) {
    // It makes its own worktrees. Its looks are no part of the run it repeats.
    recipe->insert(recipe->end(), {"--run", "reproduce-" + then->id});
  } else {
    auto made = Worktree::make(request.project, commit);
    if (!made) return made.error();
    worktree = std::move(*made);
    directory = worktree->project_directory();
  }

  progress.step("run again", then->seconds);
  const auto now = run_again(request, *recipe, directory, progress);
  if (!now) return now.error();
  result.same_verdict = now->verdict == then->verdict;
  Record record;
  record.project = then->project;
  record.commit = commit;
  record.dirty = false;
  record.device = then->device;
  record.verdict = result.same_verdict ? "reproduced" : "differs";
  record.seconds = seconds_since(began);
  record.body = ReproduceRecord{.cost_per_hour = prices_of(*then),
                                .of = then->id,
                                .exact = result.exact,
                                .argv = *recipe,
                                .verdict_then = then->verdict,
                                .verdict_now = now->verdict,
                                .what_then = detail_of(*then),
                                .what_now = detail_of(*now),
                                .differs = explain(*then, *now),
                                .summary = then->verdict + " then, " + now->verdict + " now"};
  auto written = journal.append(std::move(record));
  if (!written) return written.error();
  result.record = std::move(*written);
  progress.done();
  return result;
}

}  // namespace flashmoe::workflow
