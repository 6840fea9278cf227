#include "workflow/card/sanitizer.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "support/temporary_directory.hpp"
#include "support/whole_file.hpp"
#include "workflow/compile/compiler.hpp"
#include "workflow/gpu/findings.hpp"
#include "workflow/runner/session.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

// No exit code of ours, and none that a shell gives.
constexpr int found_something = 86;
constexpr double slower = 60;  // than the call alone: its manual says tens of times
constexpr std::size_t shown_bytes = 1500;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What it wrote, from its first report on.
std::string reported(const std::string& log) {
  const std::string text = whole_file(log).value_or("");
  const auto first = text.find("========= ", text.find("COMPUTE-SANITIZER") == std::string::npos ? 0 : 11);
  return text.substr(first == std::string::npos ? 0 : first, shown_bytes);
}

}  // namespace

std::string find_sanitizer() {
  if (std::string chosen = variable("CUDADENT_SANITIZER"); !chosen.empty()) return chosen;
  std::vector<std::string> names{"compute-sanitizer"};
  if (const std::string home = variable("CUDA_HOME"); !home.empty()) names.push_back(home + "/bin/compute-sanitizer");
  names.emplace_back("/usr/local/cuda/bin/compute-sanitizer");
  return find_program(names);
}

Result<SanitizerRun> run_sanitizer(const std::string& sanitizer, const Project& project, const Runnable& kernel,
                                   std::uint64_t seed, Progress& progress) {
  SanitizerRun run;
  if (project.workloads.empty()) return run;
  const Workload& workload = project.workloads.front();
  const TemporaryDirectory logs;
  for (const std::string tool : {"memcheck", "initcheck", "racecheck", "synccheck"}) {
    progress.update("compute-sanitizer: " + tool);
    const std::string log = (logs.path() / tool).string();
    Runnable watched = kernel;
    watched.under = {sanitizer,
                     "--tool",
                     tool,
                     "--error-exitcode",
                     std::to_string(found_something),
                     "--log-file",
                     log,
                     "--target-processes",
                     "all"};
    watched.limit_factor *= slower;
    Session session;
    if (const RunError error = session.start(project, watched, true); error.failure != Failure::none)
      return error.diagnostic;
    if (const RunError error = session.bind(project, workload.values, workload.name, 1); error.failure != Failure::none)
      return error.diagnostic;
    session.fill(0, seed);
    session.seal_inputs_and_poison();
    const std::chrono::milliseconds limit(static_cast<long>(1e3 * project.call_limit_seconds * watched.limit_factor));
    const Block block = session.run(0, 1, limit);
    const int code = session.stop();
    run.tools.push_back(tool);
    if (block.ok() && code != found_something) continue;
    run.findings.push_back({.severity = Severity::error,
                            .group = tool,
                            .what = code == found_something ? fmt::format("{} found something in workload {}:\n{}",
                                                                          tool, workload.name, reported(log))
                                                            : block.error.diagnostic.message,
                            .fix = "compile with -lineinfo for its lines; --device virtual:<gpu> names them, too",
                            .code = check_code(tool)});
  }
  return run;
}

}  // namespace flashmoe::workflow
