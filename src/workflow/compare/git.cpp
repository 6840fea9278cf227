#include "workflow/compare/git.hpp"

#include "support/process.hpp"

namespace flashmoe::workflow {
namespace {

std::string without_last_newlines(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

Result<std::string> run_git(const std::string& directory, const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment) {
  // Without what would run the user's programs, refresh the user's index or show other content than a hash says.
  std::vector<std::string> argv{"git", "-C", directory, "--no-optional-locks", "--no-replace-objects"};
  argv.insert(argv.end(), {"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"});
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto finished =
      run_process({.argv = std::move(argv), .environment = environment, .limit = std::chrono::seconds(120)});
  if (!finished) return finished.error();
  if (!finished->ok()) {
    const std::string said = without_last_newlines(finished->err);
    return Diagnostic{.message =
                          "git " + arguments.front() + ": " + finished->describe() + (said.empty() ? "" : ": " + said)};
  }
  return without_last_newlines(std::move(finished->out));
}

}  // namespace flashmoe::workflow
