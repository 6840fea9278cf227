#include "workflow/trial/snapshot.hpp"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/sha256.hpp"
#include "workflow/compare/git.hpp"
#include "workflow/verdict/codes.hpp"

namespace flashmoe::workflow {
namespace {

namespace fs = std::filesystem;

// An index of our own, gone when we are.
class PrivateIndex {
 public:
  explicit PrivateIndex(const fs::path& directory)
      : path_((directory / ("index-" + std::to_string(::getpid()))).string()) {}
  ~PrivateIndex() {
    std::error_code ignored;
    fs::remove(path_, ignored);
    fs::remove(path_ + ".lock", ignored);
  }
  PrivateIndex(const PrivateIndex&) = delete;
  PrivateIndex& operator=(const PrivateIndex&) = delete;
  [[nodiscard]] std::vector<std::string> environment() const { return {"GIT_INDEX_FILE=" + path_}; }

 private:
  std::string path_;
};

// Who commits is cudadent: a machine without a name in its git configuration can try things too. The date is HEAD's, so
// that the same edit is the same commit.
std::vector<std::string> as_cudadent(const std::string& date) {
  return {"GIT_AUTHOR_NAME=cudadent",    "GIT_AUTHOR_EMAIL=cudadent@localhost",    "GIT_AUTHOR_DATE=" + date,
          "GIT_COMMITTER_NAME=cudadent", "GIT_COMMITTER_EMAIL=cudadent@localhost", "GIT_COMMITTER_DATE=" + date};
}

int number(const std::string& text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;  // "-" of a binary file: 0
}

// Lines of `git diff --numstat -z`: added, removed, name; tabs between.
void read_numstat(const std::string& numstat, Snapshot& snapshot) {
  std::istringstream entries(numstat);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    std::istringstream fields(entry);
    std::string added, removed, file;
    if (!std::getline(fields, added, '\t') || !std::getline(fields, removed, '\t') || !std::getline(fields, file))
      continue;
    snapshot.lines_added += number(added);
    snapshot.lines_removed += number(removed);
    snapshot.files.push_back(file);
  }
}

// The tree in `index` as a commit, child of snapshot.base.
Result<Snapshot> committed(const std::string& directory, const PrivateIndex& index, Snapshot snapshot) {
  const auto tree = run_git(directory, {"write-tree"}, index.environment());
  if (!tree) return tree.error();
  const std::string& base = snapshot.base;
  const auto numstat = run_git(directory, {"diff-tree", "-r", "-z", "--numstat", "--no-renames", base, *tree, "--"});
  if (!numstat) return numstat.error();
  read_numstat(*numstat, snapshot);
  if (snapshot.files.empty()) {
    return Diagnostic{.message = "nothing to try: there is no difference from " + base.substr(0, 12),
                      .fix = "edit the kernel, then run the same command again",
                      .code = codes::usage_nothing_to_try};
  }
  const auto patch = run_git(directory, {"diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames",
                                         "--no-ext-diff", "--no-textconv", base, *tree, "--"});
  if (!patch) return patch.error();
  snapshot.patch = *patch + "\n";
  snapshot.patch_sha256 = sha256_hex(snapshot.patch);
  const auto date = run_git(directory, {"show", "--no-patch", "--format=%cI", base, "--"});
  if (!date) return date.error();
  const auto commit = run_git(directory, {"commit-tree", *tree, "-p", base, "-m", "cudadent try"}, as_cudadent(*date));
  if (!commit) return commit.error();
  snapshot.commit = *commit;
  const auto kept = run_git(directory, {"update-ref", "refs/cudadent/" + commit->substr(0, 12), *commit});
  if (!kept) return kept.error();
  return snapshot;
}

Result<Done> run_steps(const std::string& directory, const PrivateIndex& index,
                       const std::vector<std::vector<std::string>>& steps) {
  for (const auto& step : steps) {
    if (const auto done = run_git(directory, step, index.environment()); !done) return done.error();
  }
  return Done{};
}

fs::path state_directory(const std::string& project) {
  std::error_code ignored;
  fs::path state = fs::path(project) / ".cudadent";
  fs::create_directories(state, ignored);
  return state;
}

}  // namespace

Result<Snapshot> take_snapshot(const Project& project) {
  const std::string& directory = project.directory;
  const auto top = run_git(directory, {"rev-parse", "--show-toplevel"});
  if (!top) {
    return Diagnostic{.message = directory + " is in no git repository, so there is nothing to compare an edit with",
                      .fix = "git init && git add -A && git commit -m start",
                      .code = codes::usage_nothing_to_try};
  }
  const auto head = run_git(directory, {"rev-parse", "--verify", "--quiet", "HEAD^{commit}"});
  if (!head) {
    return Diagnostic{.message = "the repository " + *top + " has no commit yet, so there is nothing to compare with",
                      .fix = "git add -A && git commit -m start",
                      .code = codes::usage_nothing_to_try};
  }
  const PrivateIndex index(state_directory(directory));
  const auto read = run_steps(directory, index,
                              {{"read-tree", *head},
                               {"add", "--update", ":/"},
                               {"add", "--all", "--", "."},
                               {"rm", "-r", "--force", "--cached", "--quiet", "--ignore-unmatch", "--",
                                ".cudadent"}});  // where nobody ignores it
  if (!read) return read.error();
  return committed(directory, index, {.base = *head});
}

Result<Snapshot> snapshot_of(const Project& project, const std::string& parent, const FileChanges& files) {
  const std::string& directory = project.directory;
  const fs::path state = state_directory(directory);
  const PrivateIndex index(state);
  if (const auto read = run_steps(directory, index, {{"read-tree", parent}}); !read) return read.error();
  const auto prefix = run_git(directory, {"rev-parse", "--show-prefix"});
  if (!prefix) return prefix.error();
  for (const auto& [path, content] : files) {
    if (!content) {
      const auto removed = run_steps(directory, index, {{"update-index", "--force-remove", "--", *prefix + path}});
      if (!removed) return removed.error();
      continue;
    }
    const fs::path blob = state / ("blob-" + std::to_string(::getpid()));
    std::ofstream(blob, std::ios::binary) << *content;
    const auto hash = run_git(directory, {"hash-object", "-w", "--no-filters", blob.string()});
    std::error_code ignored;
    fs::remove(blob, ignored);
    if (!hash) return hash.error();
    const auto added = run_steps(directory, index,
                                 {{"update-index", "--add", "--cacheinfo", "100644," + *hash + "," + *prefix + path}});
    if (!added) return added.error();
  }
  return committed(directory, index, {.base = parent});
}

}  // namespace flashmoe::workflow
