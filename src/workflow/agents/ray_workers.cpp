#include "workflow/agents/ray_workers.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>

#include "support/clock.hpp"
#include "support/json_fields.hpp"
#include "support/json_text.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "workflow/agents/ray_script.hpp"
#include "workflow/environment/observation.hpp"
#include "workflow/journal/journal.hpp"
#include "workflow/journal/merge.hpp"
#include "workflow/optimize/shard.hpp"
#include "workflow/project/project.hpp"
#include "workflow/runner/inputs.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;
constexpr auto longest_run = std::chrono::hours(24 * 7);
constexpr auto longest_start = std::chrono::minutes(3);

Diagnostic ray_problem(const std::string& message, const std::string& fix) {
  return {.message = message,
          .fix = fix.empty() ? "python3 -m pip install ray, and CUDADENT_PYTHON for the Python that has it" : fix,
          .code = codes::environment_no_ray};
}

// The Python process that talks to the cluster.
class RayPool {
 public:
  static Result<RayPool> start(const Project& project, const std::string& workers, const std::string& directory) {
    const std::string python = find_python();
    if (python.empty()) return ray_problem("there is no python3", "");
    const std::string script = directory + "/workers.py";
    std::ofstream(script) << ray_script;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    auto child = Conversation::start(
        {.argv = {python, script, self.string(), project.directory, workers}, .environment = {}, .limit = longest_run});
    if (!child) return child.error();
    RayPool pool(std::move(*child), directory);
    if (const auto ready = pool.answer(longest_start); !ready) return ready.error();
    return pool;
  }

  // The files of records that the tasks wrote.
  Result<std::vector<std::string>> count(const OptimizeRequest& request, const OptimizeReport& report,
                                         const std::string& journal) {
    const Json wish = {{"run", request.run},      {"seed", request.seed}, {"device", report.device},
                       {"tasks", report.waiting}, {"journal", journal},   {"out", directory_}};
    if (const auto sent = child_.send(one_line(wish)); !sent) return sent.error();
    const auto answered = answer(longest_run);
    if (!answered) return answered.error();
    std::vector<std::string> files;
    for (const Json& file : list_in(*answered, "files")) {
      if (file.is_string()) files.push_back(file.get<std::string>());
    }
    return files;
  }

 private:
  RayPool(Conversation child, std::string directory) : child_(std::move(child)), directory_(std::move(directory)) {}

  Result<Json> answer(std::chrono::milliseconds limit) {
    const auto line = child_.receive(limit);
    if (!line) {
      const std::string& said = child_.finished().err;
      return ray_problem("the Ray workers ended: " + line.error().message + " " +
                             said.substr(said.size() - std::min<std::size_t>(said.size(), 2000)),
                         "");
    }
    Json json = bounded_json(*line);
    if (const std::string problem = text_in(json, "error"); !problem.empty())
      return ray_problem(problem, text_in(json, "fix"));
    return json;
  }

  Conversation child_;
  std::string directory_;
};

}  // namespace

Result<OptimizeReport> optimize_with_ray(OptimizeRequest request, const std::string& workers) {
  const auto began = std::chrono::steady_clock::now();
  const auto project = load_project(request.project);
  if (!project) return project.error();
  if (request.run.empty()) request.run = "optimize-" + utc_now();
  if (request.seed == 0) request.seed = fresh_seed();
  request.shard = Shard{.index = 0, .count = 1};
  auto report = run_optimize(request);
  if (!report || report->waiting == 0) return report;
  const TemporaryDirectory scratch;
  auto pool = RayPool::start(*project, workers, scratch.path().string());
  if (!pool) return pool.error();
  while (report->waiting > 0) {
    const auto files = pool->count(request, *report, Journal(project->directory).path());
    if (!files) return files.error();
    const auto merged = merge_journals(project->directory, project->name, *files);
    if (!merged) return merged.error();
    if (files->empty() || !merged->conflicts.empty()) {
      return ray_problem(files->empty() ? "no worker counted anything" : merged->conflicts.front(),
                         "cudadent journal --check");
    }
    report = run_optimize(request);
    if (!report) return report;
  }
  report->seconds = seconds_since(began);
  return report;
}

}  // namespace flashmoe::workflow
