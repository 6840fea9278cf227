#include "workflow/report/kept.hpp"

#include <sstream>

#include "workflow/compare/git.hpp"
#include "workflow/project/project.hpp"

namespace flashmoe::workflow {
namespace {

constexpr int most_history = 1000;  // commits that are looked at

// The commit of each tree, from lines of both; the first that is told of a tree stays.
std::map<std::string, std::string> commits_by_tree(const std::string& text) {
  std::map<std::string, std::string> commits;
  std::istringstream in(text);
  for (std::string commit, tree; in >> commit >> tree;) commits.emplace(tree, commit);
  return commits;
}

}  // namespace

std::optional<std::map<std::string, std::string>> kept_in_history(const Project& project,
                                                                  const std::vector<std::string>& candidates) {
  std::map<std::string, std::string> kept;
  if (candidates.empty()) return kept;
  const std::string format = "--format=%H %T";
  const auto history =
      run_git(project.directory, {"log", format, "--max-count=" + std::to_string(most_history), "HEAD"});
  std::vector<std::string> words{"log", "--no-walk", "--ignore-missing", format};
  words.insert(words.end(), candidates.begin(), candidates.end());
  const auto tried = run_git(project.directory, words);
  if (!history || !tried) return std::nullopt;
  const auto committed = commits_by_tree(*history);
  std::istringstream in(*tried);
  for (std::string candidate, tree; in >> candidate >> tree;) {
    if (const auto found = committed.find(tree); found != committed.end()) kept.emplace(candidate, found->second);
  }
  return kept;
}

}  // namespace flashmoe::workflow
