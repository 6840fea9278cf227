#include "workflow/reproduce/reproduce.hpp"

#include <chrono>
#include <memory>

#include "support/process.hpp"
#include "workflow/compare/versions.hpp"
#include "workflow/journal/facts.hpp"
#include "workflow/journal/fields.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/listing.hpp"

namespace flashmoe::workflow {
namespace {

Result<Json> find_original(const Journal& journal, const std::string& id) {
  auto record = journal.find(id);
  if (!record) return record.error();
  if (text_of(*record, "kind") == "known_good") return journal.find(text_of(*record, "of"));
  return record;
}

// What may explain a difference, as sentences. Compared by value: machine, tools and what was built.
Json explain(const Json& then, const Json& now) {
  const auto facts = [](const Json& record) {
    return Json{{"environment", field(record, "environment")},
                {"hashes", field(record, "hashes")},
                {"commit", field(record, "commit")},
                {"threads", field(record, "threads")},
                {"device", field(record, "device")}};
  };
  return side_by_side(facts(then), facts(now))["differs"];
}

struct Answer {
  Json json;
  int exit_code = 0;
};

Result<Answer> run_again(const ReproduceRequest& request, const std::vector<std::string>& recipe,
                         const std::string& directory, Progress& progress) {
  Command command;
  command.argv = {request.executable};
  command.argv.insert(command.argv.end(), recipe.begin(), recipe.end());
  command.argv.insert(command.argv.end(), {"--json", "--quiet"});
  command.directory = directory;
  command.limit = std::chrono::milliseconds(static_cast<long>(request.limit_seconds * 1e3));
  const auto finished = run_process(command, [&] { progress.update("running"); });
  if (!finished) return finished.error();
  std::string line;
  for (const std::string& word : recipe) line += " " + word;
  Answer answer{Json::parse(finished->out, nullptr, false), finished->exit_code};
  if (!answer.json.is_object()) {
    return Diagnostic{.message = "cudadent" + line + ": " + finished->describe() + ", no JSON came out" +
                                 (finished->err.empty() ? "" : ": " + finished->err),
                      .fix = "run it by hand in " + directory};
  }
  return answer;
}

}  // namespace

Result<std::vector<std::string>> recipe_of(const Json& record) {
  std::vector<std::string> recipe;
  for (const Json& word : field(field(record, "recipe"), "argv")) {
    if (word.is_string()) recipe.push_back(word.get<std::string>());
  }
  const std::string kind = text_of(record, "kind");
  if (recipe.empty() && kind == "gate") {
    recipe = {"gate", "--device", text_of(record, "device")};
    for (const char* key : {"seed", "threads"}) {
      if (field(record, key).is_number()) recipe.insert(recipe.end(), {"--" + std::string(key), record[key].dump()});
    }
  }
  if (recipe.empty()) {
    return Diagnostic{.message = "record " + text_of(record, "id") + " (" + kind + ") has no recipe",
                      .fix = "gate runs and comparisons can be reproduced: cudadent journal --kind gate"};
  }
  return recipe;
}

Result<Reproduction> reproduce(const ReproduceRequest& request, Progress& progress) {
  const auto began = std::chrono::steady_clock::now();
  progress.step("read the record");
  Journal journal(request.project);
  const auto then = find_original(journal, request.record);
  if (!then) return then.error();
  auto recipe = recipe_of(*then);
  if (!recipe) return recipe.error();
  const std::string commit = text_of(*then, "commit");
  if (commit.empty()) {
    return Diagnostic{
        .message = "record " + text_of(*then, "id") + " was made outside a repository: no commit to go back to",
        .fix = "git init and commit the project; later runs can be reproduced"};
  }
  Reproduction result;
  result.exact = field(*then, "dirty") != Json(true) && field(field(*then, "recipe"), "exact") != Json(false);

  progress.step("worktree of " + commit.substr(0, 12), 2);
  std::unique_ptr<Worktree> worktree;
  std::string directory = request.project;
  const bool is_comparison = text_of(*then, "kind") == "compare";
  if (is_comparison) {
    // It makes its own worktrees. Its looks are no part of the run it repeats.
    recipe->insert(recipe->end(), {"--run", "reproduce-" + text_of(*then, "id")});
  } else {
    auto made = Worktree::make(request.project, commit);
    if (!made) return made.error();
    worktree = std::move(*made);
    directory = worktree->project_directory();
  }

  progress.step("run again", number_of(*then, "seconds"));
  const auto answer = run_again(request, *recipe, directory, progress);
  if (!answer) return answer.error();
  const Json now =
      answer->json.contains("record") && answer->json["record"].is_object() ? answer->json["record"] : answer->json;
  const std::string verdict_then = text_of(*then, "verdict");
  std::string verdict_now = text_of(now, "verdict");
  if (verdict_now.empty()) verdict_now = text_of(now, "outcome");
  result.same_verdict = !verdict_now.empty() && verdict_now == verdict_then;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  Json record = {{"kind", "reproduce"},
                 {"project", field(*then, "project")},
                 {"commit", commit},
                 {"dirty", false},
                 {"device", field(*then, "device")},
                 {"verdict", result.same_verdict ? "reproduced" : "differs"},
                 {"seconds", seconds},
                 {"cost_per_hour", field(*then, "cost_per_hour")},
                 {"of", text_of(*then, "id")},
                 {"exact", result.exact},
                 {"argv", *recipe},
                 {"verdict_then", verdict_then},
                 {"verdict_now", verdict_now},
                 {"what_then", detail_of(*then)},
                 {"what_now", detail_of(now)},
                 {"differs", explain(*then, now)},
                 {"summary", verdict_then + " then, " + verdict_now + " now"}};
  auto written = journal.append(std::move(record));
  if (!written) return written.error();
  result.record = std::move(*written);
  progress.done();
  return result;
}

}  // namespace flashmoe::workflow
